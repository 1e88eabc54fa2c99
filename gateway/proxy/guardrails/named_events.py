"""Check texts in the named events of OpenAI's Responses API and of Anthropic's Messages API."""

from typing import Any

from gateway.protocol.errors import GatewayError
from gateway.proxy.guardrails.fields import Path, StreamTexts
from gateway.proxy.guardrails.stream_form import ErrorEvent, Event, with_whole_texts

_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "error"})


class ResponseEvents:
    """Implementation of `gateway.proxy.guardrails.stream_form.StreamForm` for ``/v1/responses``.

    A text arrives in several ``*.delta`` events. The complete text is then repeated in the ``*.done`` events of the
    text, its part and its item, and in the last event. Events are renumbered, because events may be omitted or added.
    """

    def __init__(self) -> None:
        self._last: dict[Path, Event] = {}
        """Last event of each open text, used as a template for an event with the held characters."""
        self.next_number: int | None = None

    def changed(self, event: Event, fields: StreamTexts) -> list[Event]:
        kind = str(event.get("type", ""))
        delta = event.get("delta")
        if kind.endswith(".delta") and isinstance(delta, str):
            return self._numbered(self._delta(event, kind, delta, fields), event)
        before: list[Event] = []
        if kind.endswith(".done"):
            before = self._rest(_path(event, kind.removesuffix(".done")), fields)
        elif kind in _ENDS:
            before = self.closed(fields)
        return self._numbered([*before, with_whole_texts(event, fields)], event)

    def closed(self, fields: StreamTexts) -> list[Event]:
        return [event for path in list(self._last) for event in self._rest(path, fields)]

    def blocked(self, error: GatewayError, error_event: ErrorEvent) -> bytes:
        return error_event(error, self.next_number or 0)

    def _delta(self, event: Event, kind: str, delta: str, fields: StreamTexts) -> list[Event]:
        path = _path(event, kind.removesuffix(".delta"))
        self._last[path] = event
        changed = fields.feed(path, delta, is_json="arguments" in kind)
        if changed == delta and not event.get("logprobs"):
            return [event]
        return [_with_delta(event, changed)] if changed else []

    def _rest(self, path: Path, fields: StreamTexts) -> list[Event]:
        last = self._last.pop(path, None)
        left = fields.end(path)
        return [_with_delta(last, left)] if last is not None and left else []

    def _numbered(self, events: list[Event], event: Event) -> list[Event]:
        number = event.get("sequence_number")
        if not isinstance(number, int):
            return events
        if self.next_number is None:
            self.next_number = number
        numbered = []
        for each in events:
            is_right = each.get("sequence_number") == self.next_number
            numbered.append(each if is_right else {**each, "sequence_number": self.next_number})
            self.next_number += 1
        return numbered


class MessageEvents:
    """Implementation of `StreamForm` for ``/v1/messages``. Each text belongs to a content block."""

    def __init__(self) -> None:
        self._last: dict[Path, Event] = {}

    def changed(self, event: Event, fields: StreamTexts) -> list[Event]:
        match event:
            case {"type": "content_block_delta", "delta": {"type": str(kind), **rest}}:
                name = next((name for name in _DELTAS if isinstance(rest.get(name), str)), None)
                if name is None:
                    return [with_whole_texts(event, fields)]
                return self._delta(event, (event.get("index"), kind, name), str(rest[name]), fields)
            case {"type": "content_block_stop"}:
                return [*self._rest((event.get("index"),), fields), event]
            case {"type": "message_delta" | "message_stop" | "error"}:
                return [*self.closed(fields), with_whole_texts(event, fields)]
        return [with_whole_texts(event, fields)]

    def closed(self, fields: StreamTexts) -> list[Event]:
        return self._rest((), fields)

    def blocked(self, error: GatewayError, error_event: ErrorEvent) -> bytes:
        return error_event(error, 0)

    def _delta(self, event: Event, path: Path, text: str, fields: StreamTexts) -> list[Event]:
        self._last[path] = event
        changed = fields.feed(path, text, is_json=path[-1] == "partial_json")
        if changed == text:
            return [event]
        return [_with_text(event, path, changed)] if changed else []

    def _rest(self, beginning: Path, fields: StreamTexts) -> list[Event]:
        paths = fields.begun(beginning)
        left = [(path, fields.end(path)) for path in paths]
        return [_with_text(self._last[path], path, text) for path, text in left if text]


_DELTAS = ("text", "partial_json", "thinking")


def _path(event: Event, kind: str) -> Path:
    places = ("item_id", "output_index", "content_index", "summary_index")
    return (kind, *[event.get(place) for place in places])


def _with_delta(event: Event, text: str) -> Event:
    changed: dict[str, Any] = {**event, "delta": text}
    if "logprobs" in changed:
        changed["logprobs"] = []
    return changed


def _with_text(event: Event, path: Path, text: str) -> Event:
    return {**event, "delta": {**event["delta"], str(path[-1]): text}}
