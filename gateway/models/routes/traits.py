"""Traits of a request by which rules select its model, such as its length and the features that it uses."""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Raw

from gateway.protocol.tool_loop import messages_before_results

Ability = Literal["images", "audio", "tools", "response_format", "reasoning"]

_KINDS: dict[str, Ability] = {
    "image": "images",
    "image_url": "images",
    "image_pil": "images",
    "image_embeds": "images",
    "input_image": "images",
    "audio": "audio",
    "audio_url": "audio",
    "input_audio": "audio",
}
"""Model ability that each type of message part requires, in the chat API (with vLLM's types), Responses API and
Messages API.
"""
_PLAIN_FORMATS = frozenset({"text", None})
_NO_EFFORT = frozenset({"none", None})


class Traits(msgspec.Struct, frozen=True):
    """Traits of a request that route rules compare."""

    prompt_tokens: float
    """Number of prompt tokens, estimated or exact."""
    max_tokens: int | None
    """Maximum number of output tokens that the caller set, or None for no limit."""
    asks: frozenset[Ability]
    team: str
    """Name of the caller's team, or an empty string if there are no teams."""


class _Body(msgspec.Struct, gc=False):
    """Fields of request bodies in all APIs. No field has different meanings in two APIs."""

    messages: Any = None
    input: Any = None
    tools: Any = None
    functions: Any = None
    response_format: Any = None
    text: Any = None
    output_config: Any = None
    structured_outputs: Any = None
    reasoning: Any = None
    reasoning_effort: Any = None
    thinking: Any = None


_decode = msgspec.json.Decoder(_Body, float_hook=Raw).decode


def abilities_in(raw: bytes, *, before_results: bool = False) -> frozenset[Ability]:
    """Return the abilities that the JSON body *raw* requires. The set is empty if it is not a JSON object. O(bytes).

    With *before_results*, messages after the one that began the request's tool loop do not count.
    """
    try:
        body = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return frozenset()
    found: set[Ability] = set()
    if body.tools or body.functions:
        found.add("tools")
    if body.structured_outputs or any(_is_format(each) for each in _formats(body)):
        found.add("response_format")
    if _reasons(body):
        found.add("reasoning")
    lists = [items for items in (body.messages, body.input) if isinstance(items, list)]
    for part in (
        part for items in lists for part in _parts(messages_before_results(items) if before_results else items)
    ):
        kind = _KINDS.get(str(part.get("type")))
        if kind is not None:
            found.add(kind)
    return frozenset(found)


def _formats(body: _Body) -> Iterator[Any]:
    yield body.response_format
    yield _of(body.text, "format")
    yield _of(body.output_config, "format")


def _is_format(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") not in _PLAIN_FORMATS


def _reasons(body: _Body) -> bool:
    if _of(body.thinking, "type") in {"enabled", "adaptive"}:
        return True
    effort = body.reasoning_effort if body.reasoning_effort is not None else _of(body.reasoning, "effort")
    return effort not in _NO_EFFORT


def _of(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _parts(items: Any) -> Iterator[dict[str, Any]]:
    """Yield the messages or items of a request and their parts, including the parts of tool results."""
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            yield item
            yield from _parts(item.get("content"))
            yield from _parts(item.get("output"))
        elif isinstance(item, list):  # a chat among several
            yield from _parts(item)
