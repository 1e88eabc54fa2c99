"""Readers of the texts of a JSON request, which also write the changed texts.

`AtOnce` works on the event loop; `gateway.proxy.bodies.bodies.Bodies` reads all but simple bodies in a process of their
own, because decoding holds Python's lock.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec
from msgspec import Raw

from gateway.protocol.errors import MalformedBody
from gateway.protocol.splice import spliced
from gateway.proxy.guardrails.filter import Text
from gateway.proxy.guardrails.request_texts import refuse_tokens, request_texts, with_request_texts

MAX_TEXTS: Final = 20_000
"""Most texts of one guarded request: each takes a tenth of a microsecond of the event loop in several places."""


class RequestReader(Protocol):
    """Reads and writes requests for a guard."""

    async def texts(self, raw: bytes, *, acts: bool) -> list[Text]:
        """The texts of the JSON body *raw*, in their order. *acts*: what cannot be looked at is refused.

        Raises:
            ClientError: it is, or *raw* is malformed.
        """
        ...

    async def rewritten(self, raw: bytes, said: Sequence[str]) -> bytes:
        """Return *raw* with *said* in place of its `texts`; unchanged values keep their bytes."""
        ...


class AtOnce:
    """Implements `RequestReader` on the event loop."""

    async def texts(self, raw: bytes, *, acts: bool) -> list[Text]:
        return texts_of(raw, acts=acts)

    async def rewritten(self, raw: bytes, said: Sequence[str]) -> bytes:
        return rewrite_texts(raw, said)


def texts_of(raw: bytes, *, acts: bool) -> list[Text]:
    """Return the texts of *raw*, see `RequestReader.texts`. O(bytes)."""
    try:
        body: dict[str, Any] = _decode(raw)
        texts = request_texts(body)
        if acts:
            refuse_tokens(body)
    except RecursionError:
        raise MalformedBody("JSON is nested too deeply") from None
    if acts and len(texts) > MAX_TEXTS:
        raise MalformedBody(
            f"The JSON body has more than {MAX_TEXTS} texts, more than a guardrail checks. Send fewer, in "
            "several requests"
        )
    return texts[:MAX_TEXTS]


def rewrite_texts(raw: bytes, said: Sequence[str]) -> bytes:
    """Return *raw* with *said*, see `RequestReader.rewritten`. O(bytes)."""
    body: dict[str, Any] = _decode(raw)
    changed = with_request_texts(body, tuple(said))
    return spliced(raw, {key: msgspec.json.encode(changed[key]) for key in body if changed[key] is not body[key]})


_decode = msgspec.json.Decoder(dict[str, Any], float_hook=Raw).decode
