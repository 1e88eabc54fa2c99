"""Network address of a worker, parsed from its URL."""

from dataclasses import dataclass
from urllib.parse import urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    host: str
    """Host name or IP address for name lookup and TLS. An IPv6 address has no brackets."""
    port: int
    is_tls: bool
    host_header: bytes
    base_path: bytes
    """Prefix of every request path, either empty or like ``/base/path``."""

    @classmethod
    def from_url(cls, url: str) -> "Origin":
        """Parse a worker's URL, ``http://host[:port][/base/path]`` or ``https://...``.

        Raises:
            ValueError: if the scheme, host or port is invalid, or the URL has credentials, a query or a fragment.
        """
        split = urlsplit(url)
        if split.scheme not in _DEFAULT_PORTS:
            raise ValueError("The worker URL must start with http:// or https://")
        if "@" in split.netloc:
            raise ValueError("The worker URL must not contain credentials. Set api_key instead")
        if split.query or split.fragment:
            raise ValueError("The worker URL must not contain a query or fragment ('?' or '#')")
        host, path = split.hostname, split.path.rstrip("/")
        if not host:
            raise ValueError("The worker URL has no host")
        if not path.isascii() or any(c <= " " for c in host + path):
            raise ValueError("The worker URL contains a character that must be percent-encoded")
        default_port = _DEFAULT_PORTS[split.scheme]
        port = split.port or default_port
        return cls(
            host=host,
            port=port,
            is_tls=split.scheme == "https",
            host_header=_host_header(host, port if port != default_port else None),
            base_path=path.encode("ascii"),
        )


def _host_header(host: str, port: int | None) -> bytes:
    name = host.encode("ascii" if host.isascii() else "idna")
    if b":" in name:
        name = b"[" + name.partition(b"%")[0] + b"]"  # the zone of a link-local address means nothing to the other side
    return name if port is None else b"%b:%d" % (name, port)
