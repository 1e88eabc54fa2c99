"""Addresses of workers, and the ids that are made from them."""

from hashlib import sha256
from urllib.parse import urlsplit


def is_printable_ascii(text: str) -> bool:
    """Return whether *text* is printable ASCII without spaces, and not empty."""
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
    """Return whether *url* may hold a password before "@" or a token behind "?"."""
    return any(mark in url for mark in "@?#")


def endpoint(url: str) -> str:
    """Return *url* in the one form that two spellings of the same address share."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{parts.hostname}:{port}{parts.path}"


def id_of_address(url: str) -> str:
    """Return the id of a worker that was given none: the same for every spelling of *url*, without the address in it.

    Ids reach callers in headers and errors; addresses inside the cluster must not.
    """
    return f"worker-{sha256(endpoint(url).encode()).hexdigest()[:8]}"
