"""Header hints from the caller about how to serve a request."""

import hashlib
import math
from typing import Final

from gateway.protocol.errors import InvalidField
from gateway.protocol.headers import HeaderLookup
from routing.strategies import NAMES

STRATEGY_HEADER: Final = b"x-warmgate-strategy"
"""Request header that names the routing strategy that the caller wants."""

WANTED_HEADER: Final = b"x-warmgate-wanted-s"
"""Request header with the target time to first token in seconds."""

TIMEOUT_HEADERS: Final = (b"x-stainless-read-timeout", b"x-stainless-timeout")
"""Headers in which OpenAI's SDKs for Python (``_base_client.py``) and Node send their timeout in seconds."""


MAX_NAME_LENGTH: Final = 256
"""Maximum length in characters of a session or end-user name. A longer name is replaced by its digest."""


def short_name(said: str) -> str:
    """Return *said*, or its digest if it is too long. The digest is the same in every process."""
    if len(said) <= MAX_NAME_LENGTH:
        return said
    return "blake2b:" + hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def requested_strategy(header: HeaderLookup) -> str | None:
    """Return the routing strategy that the caller requests, or None if it requests none."""
    name = header(STRATEGY_HEADER)
    if name is not None and name not in NAMES:
        raise InvalidField(
            f"The header 'x-warmgate-strategy' must be one of {', '.join(NAMES)}", param="x-warmgate-strategy"
        )
    return name


def requested_first_token_s(header: HeaderLookup) -> float | None:
    """Return the target time to first token in seconds that the caller requests, or None if it requests none."""
    said = header(WANTED_HEADER)
    if said is None:
        return None
    try:
        seconds = float(said)
    except ValueError:
        seconds = math.nan
    if not 0.0 <= seconds < math.inf:
        text = WANTED_HEADER.decode("ascii")
        raise InvalidField(f"The header {text!r} must be a number of seconds, 0 or more", param=text)
    return seconds


def client_timeout_s(header: HeaderLookup) -> float | None:
    """Return the caller's timeout in seconds, or None if its SDK does not send a valid one."""
    for name in TIMEOUT_HEADERS:
        said = header(name)
        if said is not None:
            try:
                seconds = float(said)
            except ValueError:
                return None
            return seconds if 0.0 < seconds < math.inf else None
    return None
