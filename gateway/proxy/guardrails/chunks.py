"""Check texts in streamed chunks of chat completions and text completions."""

from typing import Any

import msgspec

from gateway.protocol.errors import GatewayError
from gateway.proxy.guardrails.fields import Path, StreamTexts
from gateway.proxy.guardrails.stream_form import ErrorEvent, Event, with_whole_texts
from gateway.proxy.guardrails.texts import JSON_KEYS, NO_TEXTS, TOKENS

_COMMON = ("id", "object", "created", "model")


class Chunks:
    """Implementation of `gateway.proxy.guardrails.stream_form.StreamForm` for chat completions and text completions.

    A text is identified by its choice and its position within the choice. Text that is held back is sent in separate
    events before the event that finishes its choice.
    """

    def __init__(self) -> None:
        self._head: Event | None = None
        self._unfinished: set[int] = set()

    def changed(self, event: Event, fields: StreamTexts) -> list[Event]:
        choices = event.get("choices")
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            return [with_whole_texts(event, fields)]
        self._head = {name: event[name] for name in _COMMON if name in event}
        before: list[Event] = []
        changed = [self._choice(choice, fields, before) for choice in choices]
        rest = {name: value for name, value in event.items() if name != "choices"}
        changed_rest = with_whole_texts(rest, fields)
        is_same = changed_rest is rest and all(one is other for one, other in zip(choices, changed, strict=True))
        if is_same:
            return [*before, event]
        if not event.get("usage") and choices and all(map(_says_nothing, changed)):
            return before
        return [*before, {**event, **changed_rest, "choices": changed}]

    def closed(self, fields: StreamTexts) -> list[Event]:
        return [self._left(path, left) for path in fields.begun(()) if (left := fields.end(path))]

    def blocked(self, error: GatewayError, error_event: ErrorEvent) -> bytes:
        """Return the events that end a blocked stream in the format of OpenAI's content filter, or an error event if no
        choice has begun.
        """
        if not self._unfinished:
            return error_event(error, 0)
        ends = [self._says({"index": index}, finish_reason="content_filter") for index in sorted(self._unfinished)]
        return b"".join([*[b"data: " + msgspec.json.encode(end) + b"\n\n" for end in ends], b"data: [DONE]\n\n"])

    def _choice(self, choice: Event, fields: StreamTexts, before: list[Event]) -> Event:
        index = choice.get("index") if isinstance(choice.get("index"), int) else 0
        assert isinstance(index, int)
        finishes = choice.get("finish_reason") is not None
        (self._unfinished.discard if finishes else self._unfinished.add)(index)
        changed = _walked(choice, (index,), fields, is_last=finishes)
        if finishes:
            before.extend(self._left(path, left) for path in fields.begun((index,)) if (left := fields.end(path)))
        return changed

    def _left(self, path: Path, text: str) -> Event:
        """Return an event with the held text *text* at the position *path*."""
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


def _walked(value: Event, path: Path, fields: StreamTexts, *, is_last: bool) -> Event:
    """Return *value* with its texts changed and its token fields removed, or the same object if nothing changes."""
    changed = {name: _inner(name, inner, path, fields, is_last=is_last) for name, inner in value.items()}
    return value if all(changed[name] is inner for name, inner in value.items()) else changed


def _inner(name: str, value: Any, path: Path, fields: StreamTexts, *, is_last: bool) -> Any:
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


def _items(values: list[Any], path: Path, fields: StreamTexts, *, is_last: bool) -> list[Any]:
    changed: list[Any] = []
    for place, value in enumerate(values):
        if isinstance(value, dict):
            index = value.get("index", place)
            changed.append(_walked(value, (*path, index if isinstance(index, int) else place), fields, is_last=is_last))
        elif isinstance(value, str) and value:
            said = fields.feed((*path, place), value, is_json=False) + (fields.end((*path, place)) if is_last else "")
            changed.append(value if said == value else said)
        else:
            changed.append(value)
    return values if all(one is other for one, other in zip(values, changed, strict=True)) else changed


def _says_nothing(value: Any) -> bool:
    """Return whether *value* can be omitted, because its texts are held back and it has no other content."""
    if isinstance(value, dict):
        return all(name == "index" or _says_nothing(inner) for name, inner in value.items())
    if isinstance(value, list):
        return all(map(_says_nothing, value))
    return value is None or value == ""
