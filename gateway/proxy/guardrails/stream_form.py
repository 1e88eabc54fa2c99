"""The seam of stream forms: the texts in the events of a stream. One implementation for each API."""

from collections.abc import Callable
from typing import Any, Protocol

from gateway.protocol.errors import GatewayError
from gateway.proxy.guardrails.fields import StreamTexts
from gateway.proxy.guardrails.texts import texts_in, with_texts, without_tokens

Event = dict[str, Any]
"""The JSON of one event."""

ErrorEvent = Callable[[GatewayError, int], bytes]
"""An error as the last event, with a number where the API counts them."""


class StreamForm(Protocol):
    """The form of one stream, from its first event to its last."""

    def changed(self, event: Event, fields: StreamTexts) -> list[Event]:
        """Return the events to send for *event*: the same object if nothing has changed, others, or none."""
        ...

    def closed(self, fields: StreamTexts) -> list[Event]:
        """Return the events to send when the stream ends without its last event."""
        ...

    def blocked(self, error: GatewayError, error_event: ErrorEvent) -> bytes:
        """Return the end of a blocked stream."""
        ...


def with_whole_texts(event: Event, fields: StreamTexts) -> Event:
    """Return *event* with its texts changed; each comes in one piece."""
    texts = texts_in(event)
    changed: Event = without_tokens(with_texts(event, [fields.whole(text) for text in texts]))
    return changed
