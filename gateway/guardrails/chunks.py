"""The chunks of chat completions and of completions."""

from typing import Any

import msgspec

from gateway.errors import GatewayError
from gateway.guardrails.fields import Fields, Path
from gateway.guardrails.stream_form import ErrorEvent, Event, with_whole_texts
from gateway.guardrails.texts import JSON_KEYS, NO_TEXTS, TOKENS

_COMMON = ("id", "object", "created", "model")


class Chunks:
    """Implements `gateway.guardrails.stream_form.StreamForm`. A text is one of a choice, by its place there.

    What is left of a choice's texts when it finishes comes in events of their own before the one that says so.
    """

    def __init__(self) -> None:
        self._head: Event | None = None
        self._unfinished: set[int] = set()

    def changed(self, event: Event, fields: Fields) -> list[Event]:
        choices = event.get("choices")
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            return [with_whole_texts(event, fields)]
        self._head = {name: event[name] for name in _COMMON if name in event}
        before: list[Event] = []
        told = [self._choice(choice, fields, before) for choice in choices]
        rest = {name: value for name, value in event.items() if name != "choices"}
        changed_rest = with_whole_texts(rest, fields)
        is_same = changed_rest is rest and all(one is other for one, other in zip(choices, told, strict=True))
        if is_same:
            return [*before, event]
        if not event.get("usage") and choices and all(map(_says_nothing, told)):
            return before
        return [*before, {**event, **changed_rest, "choices": told}]

    def closed(self, fields: Fields) -> list[Event]:
        return [self._left(path, left) for path in fields.begun(()) if (left := fields.end(path))]

    def blocked(self, error: GatewayError, error_event: ErrorEvent) -> bytes:
        """As OpenAI ends what its own filter stops: with that for a reason; an error where nothing has begun."""
        if not self._unfinished:
            return error_event(error, 0)
        ends = [self._says({"index": index}, finish_reason="content_filter") for index in sorted(self._unfinished)]
        return b"".join([*[b"data: " + msgspec.json.encode(end) + b"\n\n" for end in ends], b"data: [DONE]\n\n"])

    def _choice(self, choice: Event, fields: Fields, before: list[Event]) -> Event:
        index = choice.get("index") if isinstance(choice.get("index"), int) else 0
        assert isinstance(index, int)
        finishes = choice.get("finish_reason") is not None
        (self._unfinished.discard if finishes else self._unfinished.add)(index)
        told = _walked(choice, (index,), fields, is_last=finishes)
        if finishes:
            before.extend(self._left(path, left) for path in fields.begun((index,)) if (left := fields.end(path)))
        return told

    def _left(self, path: Path, text: str) -> Event:
        """What is *left* of one text, as an event."""
        said: Any = text
        for place in reversed(path[1:]):
            if isinstance(place, int):
                said = [{"index": place, **said}] if isinstance(said, dict) else [said]
            else:
                said = {place: said}
        return self._says({"index": path[0], **said}, finish_reason=None)

    def _says(self, choice: Event, *, finish_reason: str | None) -> Event:
        head = self._head or {}
        if str(head.get("object", "")).startswith("chat"):
            choice = {"delta": {}, **choice}
        elif finish_reason is not None:
            choice = {"text": "", **choice}
        return {**head, "choices": [{**choice, "logprobs": None, "finish_reason": finish_reason}]}


def _walked(value: Event, path: Path, fields: Fields, *, is_last: bool) -> Event:
    """*value* with its texts changed, and without tokens; the very same where nothing has changed."""
    told = {name: _inner(name, inner, path, fields, is_last=is_last) for name, inner in value.items()}
    return value if all(told[name] is inner for name, inner in value.items()) else told


def _inner(name: str, value: Any, path: Path, fields: Fields, *, is_last: bool) -> Any:
    if name in TOKENS:
        return None
    if name in NO_TEXTS:
        return value
    if isinstance(value, str) and value:
        place = (*path, name)
        text = fields.feed(place, value, is_json=name in JSON_KEYS)
        if is_last:
            text += fields.end(place)
        return value if text == value else text
    if isinstance(value, dict):
        return _walked(value, (*path, name), fields, is_last=is_last)
    if isinstance(value, list):
        return _items(value, (*path, name), fields, is_last=is_last)
    return value


def _items(values: list[Any], path: Path, fields: Fields, *, is_last: bool) -> list[Any]:
    told: list[Any] = []
    for place, value in enumerate(values):
        if isinstance(value, dict):
            index = value.get("index", place)
            told.append(_walked(value, (*path, index if isinstance(index, int) else place), fields, is_last=is_last))
        elif isinstance(value, str) and value:
            said = fields.feed((*path, place), value, is_json=False) + (fields.end((*path, place)) if is_last else "")
            told.append(value if said == value else said)
        else:
            told.append(value)
    return values if all(one is other for one, other in zip(values, told, strict=True)) else told


def _says_nothing(value: Any) -> bool:
    """Whether nobody would miss it: its texts are kept back, and there is nothing else."""
    if isinstance(value, dict):
        return all(name == "index" or _says_nothing(inner) for name, inner in value.items())
    if isinstance(value, list):
        return all(map(_says_nothing, value))
    return value is None or value == ""
