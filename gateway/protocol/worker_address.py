"""Addresses of workers, and worker ids that are computed from addresses."""

from hashlib import sha256
from urllib.parse import urlsplit


def is_printable_ascii(text: str) -> bool:
    """Return whether *text* is non-empty printable ASCII without spaces."""
    return bool(text) and all("!" <= character <= "~" for character in text)


def is_http_address(url: str) -> bool:
    """Return whether *url* is an http:// or https:// address with a host."""
    try:
        parts = urlsplit(url)
        return (
            is_printable_ascii(url) and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        )
    except ValueError:
        return False


def is_private_address(url: str) -> bool:
    """Return whether *url* could contain a password before "@" or a token after "?"."""
    return any(mark in url for mark in "@?#")


def endpoint(url: str) -> str:
    """Return *url* in canonical form, which is equal for all spellings of an address."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{parts.hostname}:{port}{parts.path}"


def host_of(url: str) -> str:
    """Return the host of *url*, without the brackets of an IPv6 address."""
    return urlsplit(url).hostname or ""


def id_of_address(url: str) -> str:
    """Return the id of a worker for which the settings give no id. It is equal for every spelling of *url*, and does
    not contain the address.

    Ids reach callers in headers and errors, but addresses inside the cluster must not.
    """
    return f"worker-{sha256(endpoint(url).encode()).hexdigest()[:8]}"
