"""Interface for finding texts in the events of a stream, with one implementation for each API."""

from collections.abc import Callable
from typing import Any, Protocol

from gateway.protocol.errors import GatewayError
from gateway.proxy.guardrails.fields import StreamTexts
from gateway.proxy.guardrails.texts import texts_in, with_texts, without_tokens

Event = dict[str, Any]
"""JSON object of one stream event, decoded."""

ErrorEvent = Callable[[GatewayError, int], bytes]
"""Function that formats an error as the last event of a stream. Its second argument is the event's sequence number,
which some APIs require.
"""


class StreamForm(Protocol):
    """Event format of a stream, from the first event to the last."""

    def changed(self, event: Event, fields: StreamTexts) -> list[Event]:
        """Return the events to send in place of *event*. The list contains *event* itself if nothing has changed, and
        it can be empty.
        """
        ...

    def closed(self, fields: StreamTexts) -> list[Event]:
        """Return the events to send if the stream ends without its usual last event."""
        ...

    def blocked(self, error: GatewayError, error_event: ErrorEvent) -> bytes:
        """Return the bytes that end a blocked stream."""
        ...


def with_whole_texts(event: Event, fields: StreamTexts) -> Event:
    """Return *event* with its texts changed. Each text must be complete within the event."""
    texts = texts_in(event)
    changed: Event = without_tokens(with_texts(event, [fields.whole(text) for text in texts]))
    return changed
