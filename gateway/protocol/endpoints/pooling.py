"""Endpoints that generate no text: embeddings, scores and classification.

Most of them use pooling models. The engines of pooling models usually keep no blocks, so the prompt only determines the
amount of work. Scoring is different. It asks a generating model for probabilities and so uses the cache of the model.
"""

from typing import Any

import msgspec
from msgspec import Raw

from gateway.protocol.body import Body, named, parsed
from gateway.protocol.engine_fields import EngineFields, engine_fields_of
from gateway.protocol.errors import DECODE_ERRORS
from gateway.protocol.json_fields import ChatMessage
from gateway.protocol.prompt import chat_prompt, embeds_prompt, text_prompt, token_prompt
from gateway.protocol.session_field import has_session_field, session_field_of
from gateway.protocol.usage import Usage


def parse_pooling(raw: bytes) -> Body:
    """Parse the body of an embedding, rerank, score, pooling or classification request. Takes O(bytes).

    Raises:
        MalformedBody, InvalidField: see `gateway.protocol.body.parse_chat`. The engine checks the inputs.
    """
    return parsed(raw, _pooled)


def parse_scoring(raw: bytes) -> Body:
    """Parse the body of a scoring request to a generating model. Takes O(bytes). Raises the same errors as
    `parse_pooling`.
    """
    return parsed(raw, _scored)


def usage_of_pooling(body: bytes) -> Usage | None:
    """Return the usage in the answer, or None if the answer contains no usage. Some engines send only the total. Takes
    O(bytes).
    """
    try:
        usage = _decode_answer(body).usage
    except DECODE_ERRORS:
        return None
    if usage is None:
        return None
    tokens = next(
        (count for count in (usage.prompt_tokens, usage.input_tokens, usage.total_tokens) if count is not None), None
    )
    return Usage(tokens, 0) if tokens is not None else None


class _Pooling(EngineFields, gc=False):
    model: str | None = None
    user: str | None = None
    cache_salt: str | None = None
    messages: list[ChatMessage] | None = None
    input: Any = None
    inputs: Any = None
    texts: Any = None
    images: Any = None
    instructions: Any = None
    state: Any = None
    questions: Any = None
    query: Any = None
    queries: Any = None
    documents: Any = None
    items: Any = None
    text_1: Any = None
    text_2: Any = None
    data_1: Any = None
    data_2: Any = None
    data: Any = None


class _PoolingUsage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    input_tokens: int | None = None
    total_tokens: int | None = None


class _PoolingAnswer(msgspec.Struct, gc=False):
    usage: _PoolingUsage | None = None


_decode = msgspec.json.Decoder(_Pooling, float_hook=Raw).decode
_decode_answer = msgspec.json.Decoder(_PoolingAnswer).decode
_PROMPTS = (
    *("instructions", "state", "questions"),
    *("input", "inputs", "texts", "images"),
    *("query", "queries", "text_1", "data_1"),
    *("documents", "items", "text_2", "data_2", "data"),
)
"""Input fields in the order in which a model reads them. For example, the query comes before the documents."""


def _pooled(raw: bytes) -> Body:
    return _body(_decode(raw), has_cache=False)


def _scored(raw: bytes) -> Body:
    return _body(_decode(raw), has_cache=True)


def _body(body: _Pooling, *, has_cache: bool) -> Body:
    return Body(
        model=named(body.model),
        streams=False,
        max_tokens=0,
        asks_usage=True,
        has_stream_options=False,
        prompt=_prompt(body),
        session=session_field_of(body) or body.user or None,
        cache_salt=body.cache_salt,
        n=1,
        reads_cache=has_cache,
        writes_cache=has_cache,
        user=body.user or None,
        engine_fields=engine_fields_of(body),
        hides_session_id=has_session_field(body),
    )


def _prompt(body: _Pooling) -> bytes:
    if body.messages:
        return chat_prompt(body.messages)
    values = [getattr(body, name) for name in _PROMPTS]
    return b"".join([_rendered(value) for value in values if value is not None])


def _rendered(value: Any) -> bytes:
    match value:
        case str():
            return text_prompt([value])
        case [str(), *rest] if all(isinstance(text, str) for text in rest):
            return text_prompt(value)
        case [int() | [*_], *_]:
            return _tokens(value)
        case _:
            return embeds_prompt(value)


def _tokens(value: list[Any]) -> bytes:
    try:
        return token_prompt([value] if isinstance(value[0], int) else value)
    except (ValueError, TypeError):
        return embeds_prompt(value)  # not token ids
