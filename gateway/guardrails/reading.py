"""Reads the texts of a JSON request, and writes what became of them.

`AtOnce` does so on the event loop; the gateway's own reader, `gateway.bodies.bodies.Bodies`, has all but simple bodies
read in a process of their own, since decoding holds Python's lock.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec
from msgspec import Raw

from gateway.errors import MalformedBody
from gateway.guardrails.filter import Text
from gateway.guardrails.request_texts import refuse_tokens, request_texts, with_request_texts
from gateway.splice import spliced

MAX_TEXTS: Final = 20_000
"""Of one request that is guarded: each takes a tenth of a microsecond of the event loop in several places."""


class RequestReader(Protocol):
    """Reads and writes requests for a guard."""

    async def texts(self, raw: bytes, *, acts: bool) -> list[Text]:
        """The texts of the JSON body *raw*, in their order. *acts*: what cannot be looked at is refused.

        Raises:
            ClientError: it is, or *raw* is malformed.
        """
        ...

    async def told(self, raw: bytes, said: Sequence[str]) -> bytes:
        """*raw* with *said* in place of its `texts`; every value in which nothing has changed keeps its bytes."""
        ...


class AtOnce:
    """Implements `RequestReader` on the event loop."""

    async def texts(self, raw: bytes, *, acts: bool) -> list[Text]:
        return texts_of(raw, acts=acts)

    async def told(self, raw: bytes, said: Sequence[str]) -> bytes:
        return told_of(raw, said)


def texts_of(raw: bytes, *, acts: bool) -> list[Text]:
    """As `RequestReader.texts`. O(bytes)."""
    try:
        body: dict[str, Any] = _decode(raw)
        texts = request_texts(body)
        if acts:
            refuse_tokens(body)
    except RecursionError:
        raise MalformedBody("JSON is nested too deeply") from None
    if acts and len(texts) > MAX_TEXTS:
        raise MalformedBody(
            f"The JSON body has more than {MAX_TEXTS} texts, which is more than a guardrail looks at. Send fewer, in "
            "several requests"
        )
    return texts[:MAX_TEXTS]


def told_of(raw: bytes, said: Sequence[str]) -> bytes:
    """As `RequestReader.told`. O(bytes)."""
    body: dict[str, Any] = _decode(raw)
    told = with_request_texts(body, tuple(said))
    return spliced(raw, {key: msgspec.json.encode(told[key]) for key in body if told[key] is not body[key]})


_decode = msgspec.json.Decoder(dict[str, Any], float_hook=Raw).decode
