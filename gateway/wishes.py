"""What callers say in headers of how they want to be served."""

import hashlib
import math
from typing import Final

from gateway.errors import InvalidField
from gateway.teams.access import Header
from routing.strategies import NAMES

STRATEGY_HEADER: Final = b"x-warmgate-strategy"
"""By which a caller may ask for a strategy of its own choice."""

WANTED_HEADER: Final = b"x-warmgate-wanted-s"
"""By which a caller says in how many seconds it wants the first token."""

TIMEOUT_HEADERS: Final = (b"x-stainless-read-timeout", b"x-stainless-timeout")
"""In which OpenAI's SDKs say for how many seconds they wait: that for Python (``_base_client.py``), that for Node."""


LONGEST_NAME: Final = 256
"""Characters of a name that callers make up, of a session or an end user; of a longer one a digest does."""


def short_name(said: str) -> str:
    """*said*, or what stands for it where it is long: the same in every process."""
    if len(said) <= LONGEST_NAME:
        return said
    return "blake2b:" + hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def strategy_in(header: Header) -> str | None:
    """The strategy that a caller asks for; None if it leaves that to the model."""
    name = header(STRATEGY_HEADER)
    if name is not None and name not in NAMES:
        raise InvalidField(
            f"The header 'x-warmgate-strategy' must be one of {', '.join(NAMES)}", param="x-warmgate-strategy"
        )
    return name


def wanted_s_in(header: Header) -> float | None:
    """In how many seconds the caller wants its first token; None if it does not say."""
    said = header(WANTED_HEADER)
    if said is None:
        return None
    try:
        seconds = float(said)
    except ValueError:
        seconds = math.nan
    if not 0.0 <= seconds < math.inf:
        text = WANTED_HEADER.decode("ascii")
        raise InvalidField(f"The header {text!r} must be a number of seconds", param=text)
    return seconds


def patience_s_in(header: Header) -> float | None:
    """For how many seconds the caller waits, if its SDK says so in a way that is understood."""
    for name in TIMEOUT_HEADERS:
        said = header(name)
        if said is not None:
            try:
                seconds = float(said)
            except ValueError:
                return None
            return seconds if 0.0 < seconds < math.inf else None
    return None
