"""Open mode: without teams and store, requests need no key, and their origin decides whether they are served.

1. The other end of the connection must be this machine, and no header may name another client behind it. A proxy on
   this machine makes all remote clients look local, so proxy headers close open mode.
2. The request must be addressed to this machine. A web page whose host name resolves to 127.0.0.1 (DNS rebinding) has
   the same origin for a browser, but its host name is in the ``host`` header.
3. The request must not come from a page of another origin. Browsers send some requests without a preflight, such as a
   body without a content type, but such requests name their origin.
"""

from collections.abc import Iterable
from typing import Final

from gateway.protocol.errors import Forbidden
from gateway.protocol.networks import address_in

OF_PROXIES: Final = frozenset(
    {
        b"via",
        b"forwarded",
        b"x-forwarded",
        b"x-forwarded-by",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-port",
        b"x-forwarded-prefix",
        b"x-forwarded-proto",
        b"x-forwarded-scheme",
        b"x-forwarded-server",
        b"x-forwarded-ssl",
        b"x-forwarded-uri",
        b"x-original-forwarded-for",
        b"x-original-host",
        b"x-original-uri",
        b"x-real-ip",
        b"x-client-ip",
        b"x-cluster-client-ip",
        b"x-amzn-trace-id",
        b"x-envoy-external-address",
        b"x-envoy-expected-rq-timeout-ms",
        b"true-client-ip",
        b"cf-connecting-ip",
        b"fastly-client-ip",
        b"cdn-loop",
    }
)
"""Headers that proxies add, in lower case. One of these headers is enough to recognize a proxy."""
ANY_ORIGIN: Final = "*"

_LOOPBACK: Final = frozenset({"127.0.0.1", "::1"})
"""Usual addresses of local connections, which are recognized without parsing."""
_LOCAL_NAMES: Final = frozenset({b"localhost", b"127.0.0.1"})
_NAME_BYTES: Final = len(b"localhost")  # and of the other
_COLON: Final = ord(b":")
_OWN_SITES: Final = (b"", b"none", b"same-origin")
_SHOWN: Final = 100  # characters of a value that is named
_WHAT_TO_DO: Final = (
    "Set teams with keys in the configuration (teams), or name a store (store.url) and create keys with: warmgate key "
    "create; or set server.open_mode to network, to serve every client that reaches this port."
)


class OpenMode:
    """Decision which requests are served without a key. *is_network* admits all clients, but no foreign web pages.

    *origins* lists page origins that may send requests (``https://host:port``, or ``*`` for all).
    """

    __slots__ = ("_has_any_origin", "_is_network", "_origins")

    def __init__(self, *, is_network: bool = False, origins: Iterable[str] = ()) -> None:
        allowed = frozenset(origins)
        self._is_network = is_network
        self._has_any_origin = ANY_ORIGIN in allowed
        self._origins = frozenset(origin.encode("ascii") for origin in allowed)

    def check(self, fields: dict[bytes, bytes], peer: str | None, *, is_http_1_0: bool) -> None:
        """Raise an error unless the request is allowed to be served. Takes about 0.6 us.

        *fields* maps header names in lower case to the first value of each header. *peer* is the address at the other
        end of the connection, or None for a Unix socket, which no browser can reach.

        Raises:
            Forbidden: ``open_mode``, with the reason and the setting to change.
        """
        fault = None if self._is_network else _outside(fields, peer, is_http_1_0=is_http_1_0)
        if fault is not None:
            text = f"Without keys this gateway serves only its own machine, and {fault}. {_WHAT_TO_DO}"
            raise Forbidden(text, code="open_mode")
        fault = None if peer is None else self._foreign(fields)
        if fault is not None:
            raise Forbidden(fault, code="open_mode")

    def _foreign(self, fields: dict[bytes, bytes]) -> str | None:
        """Return the reason if a web page of another origin could have sent the request. Otherwise, return None."""
        origin, site = fields.get(b"origin"), fields.get(b"sec-fetch-site")
        is_other = origin is not None and not _is_same(origin, fields.get(b"host", b""))
        is_foreign = is_other or (site is not None and site not in _OWN_SITES)
        if is_foreign and not self._has_any_origin and origin not in self._origins:
            name = _shown(origin) if origin is not None else f"sec-fetch-site: {_shown(site or b'')}"
            return f"A page of another origin sent this request ({name}). Allow that origin in server.cors_origins."
        length = fields.get(b"content-length", b"0")
        if (length != b"0" or b"transfer-encoding" in fields) and b"content-type" not in fields:
            return "Without keys a request with a body needs a content-type. Send content-type: application/json."
        return None


def is_loopback(host: bytes) -> bool:
    """Return whether the header value *host* names this machine: localhost, 127.0.0.0/8 or [::1], on any port."""
    if host[:_NAME_BYTES] in _LOCAL_NAMES and (len(host) == _NAME_BYTES or host[_NAME_BYTES] == _COLON):
        return True  # the usual values, which are cheap to find
    name = host.lower()
    if name.startswith(b"["):
        return name == b"[::1]" or name.startswith(b"[::1]:")
    name = name.partition(b":")[0]
    if name in _LOCAL_NAMES:
        return True
    return name.startswith(b"127.") and _is_loopback_address(name.decode("latin-1"))


def _is_loopback_address(text: str) -> bool:
    address = address_in(text)
    return address is not None and address.is_loopback


def _outside(fields: dict[bytes, bytes], peer: str | None, *, is_http_1_0: bool) -> str | None:
    """Return the reason if the request could come from another machine. Otherwise, return None."""
    if not OF_PROXIES.isdisjoint(fields):
        name = next(name for name in fields if name in OF_PROXIES).decode("ascii")
        return f"this request came through a proxy (header {name})"
    if peer is None:
        return None
    if peer not in _LOOPBACK and not _is_loopback_address(peer):
        return f"this request comes from {_shown(peer.encode())}"
    host = fields.get(b"host", b"")
    if not is_loopback(host):
        return f"this request is for the host {_shown(host)}, not for localhost"
    if is_http_1_0 and fields.get(b"connection", b"").lower() == b"close":
        # All that nginx before 1.29.7 adds by default.
        return "this request looks like a request of nginx (HTTP/1.0 with connection: close)"
    return None


def _is_same(origin: bytes, host: bytes) -> bool:
    """Return whether *origin* is the gateway's own origin from the caller's point of view."""
    return origin.partition(b"://")[2].lower() == host.lower()


def _shown(value: bytes) -> str:
    return repr(value[:_SHOWN].decode("ascii", "replace"))
