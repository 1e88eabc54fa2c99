"""Hints in request headers about how the caller wants the request to be served."""

import hashlib
import math
from typing import Final

from gateway.protocol.errors import InvalidField
from gateway.protocol.headers import HeaderLookup
from routing.strategies import NAMES

STRATEGY_HEADER: Final = b"x-warmgate-strategy"
"""Request header with the routing strategy that the caller wants."""

FIRST_TOKEN_HEADERS: Final = {
    b"x-warmgate-slo-ttft-ms": 0.001,
    b"x-llm-d-slo-ttft-ms": 0.001,
    b"x-slo-ttft-ms": 0.001,
    b"x-warmgate-wanted-s": 1.0,
}
"""Request headers for the target time to first token, and the length of the headers' time units in seconds.

The first header that a request has counts. Clients of llm-d send the second one, or the third one, which is its former
name. The last one is the gateway's former name.
"""

REWRITE_HEADERS: Final = (b"x-llm-d-model-name-rewrite", b"x-gateway-model-name-rewrite")
"""Headers in which a gateway in front of an endpoint picker names the model that replaces the model in the body. The
second one is the former name.
"""

TIMEOUT_HEADERS: Final = (b"x-stainless-read-timeout", b"x-stainless-timeout")
"""Headers in which OpenAI's SDKs for Python (``_base_client.py``) and Node send the timeout in seconds."""


MAX_NAME_LENGTH: Final = 256
"""Maximum length in characters of a session or end-user name. A digest replaces any longer name."""


def short_name(said: str) -> str:
    """Return the name *said*, or its digest if it is too long."""
    return said if len(said) <= MAX_NAME_LENGTH else name_digest(said)


def name_digest(said: str) -> str:
    """Return a digest that stands for the name *said*. The digest is the same in every process."""
    return "blake2b:" + hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def requested_strategy(header: HeaderLookup) -> str | None:
    """Return the routing strategy that the caller requests, or None if the caller requests no strategy."""
    name = header(STRATEGY_HEADER)
    if name is not None and name not in NAMES:
        raise InvalidField(
            f"The header 'x-warmgate-strategy' must be one of {', '.join(NAMES)}", param="x-warmgate-strategy"
        )
    return name


def requested_first_token_s(header: HeaderLookup) -> float | None:
    """Return the target time to first token in seconds, or None if the caller gives no target.

    Raises:
        InvalidField: if the header is not a number of 0 or more.
    """
    for name, unit_s in FIRST_TOKEN_HEADERS.items():
        said = header(name)
        if said is not None:
            return _duration(said, name.decode("ascii")) * unit_s
    return None


def _duration(said: str, name: str) -> float:
    try:
        number = float(said)
    except ValueError:
        number = math.nan
    if not 0.0 <= number < math.inf:
        unit = "milliseconds" if name.endswith("-ms") else "seconds"
        raise InvalidField(f"The header {name!r} must be a number of {unit}, 0 or more", param=name)
    return number


def client_timeout_s(header: HeaderLookup) -> float | None:
    """Return the caller's timeout in seconds, or None if the caller's SDK does not send a valid timeout."""
    for name in TIMEOUT_HEADERS:
        said = header(name)
        if said is not None:
            try:
                seconds = float(said)
            except ValueError:
                return None
            return seconds if 0.0 < seconds < math.inf else None
    return None
