"""Hints in headers about how the caller wants a request to be served."""

import hashlib
import math
from typing import Final

from gateway.protocol.errors import InvalidField
from gateway.protocol.headers import HeaderLookup
from routing.strategies import NAMES

STRATEGY_HEADER: Final = b"x-warmgate-strategy"
"""Header with the strategy that the caller wants."""

WANTED_HEADER: Final = b"x-warmgate-wanted-s"
"""Header with the seconds in which the caller wants the first token."""

TIMEOUT_HEADERS: Final = (b"x-stainless-read-timeout", b"x-stainless-timeout")
"""Headers with the timeout of OpenAI's SDKs in seconds: for Python (``_base_client.py``), for Node."""


MAX_NAME_LENGTH: Final = 256
"""Longest name of a session or an end user that is kept, in characters; a longer one is replaced by a digest."""


def short_name(said: str) -> str:
    """Return *said*, or its digest if it is long, which is the same in every process."""
    if len(said) <= MAX_NAME_LENGTH:
        return said
    return "blake2b:" + hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def requested_strategy(header: HeaderLookup) -> str | None:
    """Return the strategy that the caller wants; None if it does not say."""
    name = header(STRATEGY_HEADER)
    if name is not None and name not in NAMES:
        raise InvalidField(
            f"The header 'x-warmgate-strategy' must be one of {', '.join(NAMES)}", param="x-warmgate-strategy"
        )
    return name


def requested_first_token_s(header: HeaderLookup) -> float | None:
    """Return the seconds in which the caller wants the first token; None if it does not say."""
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
    """Return the timeout of the caller in seconds; None if its SDK does not send one that is understood."""
    for name in TIMEOUT_HEADERS:
        said = header(name)
        if said is not None:
            try:
                seconds = float(said)
            except ValueError:
                return None
            return seconds if 0.0 < seconds < math.inf else None
    return None
