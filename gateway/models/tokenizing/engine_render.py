"""Exact tokens from an engine's ``/render`` endpoint (vLLM).

The endpoint takes the unchanged request and returns the tokens that the engine would compute. vLLM has it since 0.18
(`vllm/entrypoints/scale_out/render`), and since 0.30 only with ``--enable-scale-out``, except in a render server
(``vllm launch render``).
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from cache_index.tokens import pack
from gateway.models.tokenizing.engine_question import EngineQuestion
from gateway.models.tokenizing.exactness import Exact, NotExact, Unknowable
from gateway.models.tokenizing.token_source import RawPrompt
from gateway.protocol.errors import MalformedBody
from gateway.protocol.splice import spliced

_ROUTES: Mapping[str, str] = MappingProxyType(
    {path: f"{path}/render" for path in ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses")}
)


class EngineRender:
    """Token source that sends the whole request to an engine, and so supports everything that the engine supports."""

    def __init__(self, question: EngineQuestion) -> None:
        self._question = question

    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        """Return the exact tokens of *prompt*. The cost is one round trip and O(bytes)."""
        route = _ROUTES.get(prompt.path)
        if route is None:
            return NotExact("endpoint")
        if route == "/v1/messages/render" and b'"disabled"' in prompt.body:
            return NotExact("unsupported")  # how an engine stops thinking it finds out when it serves, not here
        try:
            # Tensors of images are of no use here, and large.
            body = spliced(prompt.body, {"model": msgspec.json.encode(prompt.model), "mm_payload": b'"none"'})
            return _exact(await self._question.ask(route, body))
        except Unknowable as unknowable:
            return NotExact(unknowable.reason)
        except MalformedBody:
            return NotExact("malformed")


class _Place(msgspec.Struct, gc=False):
    offset: int


class _Features(msgspec.Struct, gc=False):
    mm_placeholders: dict[str, list[_Place]] = {}


class _Rendered(msgspec.Struct, gc=False):
    token_ids: list[int]
    features: _Features | None = None


_decode = msgspec.json.Decoder(_Rendered | list[_Rendered]).decode


def _exact(answer: bytes) -> Exact:
    """Return the tokens in an engine's answer. If there are several prompts, only the first is exact, but all are
    counted.
    """
    try:
        decoded = _decode(answer)
        rendered = decoded if isinstance(decoded, list) else [decoded]
        packed = [pack(prompt.token_ids) for prompt in rendered]
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError):
        raise Unknowable("engine") from None
    if not rendered:
        raise Unknowable("engine")
    return Exact(b"".join(packed), _text_tokens(rendered[0]))


def _text_tokens(rendered: _Rendered) -> int:
    """Return the number of tokens before the first image, because token ids do not identify images."""
    places = {} if rendered.features is None else rendered.features.mm_placeholders
    return min([len(rendered.token_ids), *(place.offset for of_kind in places.values() for place in of_kind)])
