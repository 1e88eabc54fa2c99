"""Endpoints that generate nothing: embeddings, scores, classes.

Most are answered by models that pool the prompt, whose engines mostly keep no blocks: there the prompt only says how
much there is to do. Scoring is different, as it asks a generating model for probabilities, and so uses its cache.
"""

from typing import Any

import msgspec
from msgspec import Raw

from gateway.body import Body, named, parsed
from gateway.body_fields import Message
from gateway.engine_fields import EngineFields, engine_fields_of
from gateway.prompt import chat_prompt, embeds_prompt, text_prompt, token_prompt
from gateway.unreadable import UNREADABLE
from gateway.usage import Usage


def parse_pooling(raw: bytes) -> Body:
    """Read the body of an embedding, a rerank, a score, a pooling or a classification. O(bytes).

    Raises:
        MalformedBody, InvalidField: as `gateway.body.parse_chat`. What is to be pooled is for the engine to judge.
    """
    return parsed(raw, _pooled)


def parse_scoring(raw: bytes) -> Body:
    """Read the body of what is read off a generating model without generating. Raises as `parse_pooling`. O(bytes)."""
    return parsed(raw, _scored)


def usage_of_pooling(body: bytes) -> Usage | None:
    """The usage in the answer, for which some engines say only a total; None if there is none. O(bytes)."""
    try:
        usage = _decode_answer(body).usage
    except UNREADABLE:
        return None
    if usage is None:
        return None
    tokens = next(
        (told for told in (usage.prompt_tokens, usage.input_tokens, usage.total_tokens) if told is not None), None
    )
    return Usage(tokens, 0) if tokens is not None else None


class _Pooling(EngineFields, gc=False):
    model: str | None = None
    user: str | None = None
    cache_salt: str | None = None
    messages: list[Message] | None = None
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


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    input_tokens: int | None = None
    total_tokens: int | None = None


class _Answer(msgspec.Struct, gc=False):
    usage: _Usage | None = None


_decode = msgspec.json.Decoder(_Pooling, float_hook=Raw).decode
_decode_answer = msgspec.json.Decoder(_Answer).decode
_PROMPTS = (
    *("instructions", "state", "questions"),
    *("input", "inputs", "texts", "images"),
    *("query", "queries", "text_1", "data_1"),
    *("documents", "items", "text_2", "data_2", "data"),
)
"""In the order in which a model reads them: the query stands before what it is compared with."""


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
        session=body.user or None,
        cache_salt=body.cache_salt,
        n=1,
        reads_cache=has_cache,
        writes_cache=has_cache,
        user=body.user or None,
        engine_fields=engine_fields_of(body),
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
        return embeds_prompt(value)  # not token ids after all
