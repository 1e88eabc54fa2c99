"""Read the texts in a JSON request, and write the changed texts into it.

`AtOnce` works on the event loop. `gateway.proxy.bodies.bodies.Bodies` uses a separate process for all but simple
bodies, because decoding holds Python's global lock.
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
"""Maximum number of texts in a guarded request. It bounds the time on the event loop, where each text takes several
tenths of a microsecond.
"""


class RequestReader(Protocol):
    """Interface for reading and changing the texts of a JSON request."""

    async def texts(self, raw: bytes, *, acts: bool) -> list[Text]:
        """Return the texts in the JSON body *raw* in order. If *acts* is true, content that cannot be checked is an
        error.

        Raises:
            ClientError: if *raw* is malformed, or contains content that cannot be checked.
        """
        ...

    async def rewritten(self, raw: bytes, said: Sequence[str]) -> bytes:
        """Return *raw* with the texts *said* in place of its texts. Unchanged values keep their exact bytes."""
        ...


class AtOnce:
    """Implementation of `RequestReader` that runs on the event loop."""

    async def texts(self, raw: bytes, *, acts: bool) -> list[Text]:
        return texts_of(raw, acts=acts)

    async def rewritten(self, raw: bytes, said: Sequence[str]) -> bytes:
        return rewrite_texts(raw, said)


def texts_of(raw: bytes, *, acts: bool) -> list[Text]:
    """Return the texts in the JSON body *raw* (see `RequestReader.texts`). O(bytes)."""
    try:
        body: dict[str, Any] = _decode(raw)
        texts = request_texts(body)
        if acts:
            refuse_tokens(body)
    except RecursionError:
        raise MalformedBody("The JSON body is nested too deeply. Send fewer levels.") from None
    if acts and len(texts) > MAX_TEXTS:
        raise MalformedBody(
            f"The JSON body has more than {MAX_TEXTS} texts, which is the limit for guardrails. Split it into "
            "several requests."
        )
    return texts[:MAX_TEXTS]


def rewrite_texts(raw: bytes, said: Sequence[str]) -> bytes:
    """Return *raw* with the texts *said* in place of its texts (see `RequestReader.rewritten`). O(bytes)."""
    body: dict[str, Any] = _decode(raw)
    changed = with_request_texts(body, tuple(said))
    return spliced(raw, {key: msgspec.json.encode(changed[key]) for key in body if changed[key] is not body[key]})


_decode = msgspec.json.Decoder(dict[str, Any], float_hook=Raw).decode
