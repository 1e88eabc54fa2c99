"""Where in the events of a stream there are texts; one implementation for each API."""

from collections.abc import Callable
from typing import Any, Protocol

from gateway.errors import GatewayError
from gateway.guardrails.fields import Fields
from gateway.guardrails.texts import texts_in, with_texts, without_tokens

Event = dict[str, Any]
"""The JSON of one event."""

ErrorEvent = Callable[[GatewayError, int], bytes]
"""An error as the last event, with a number where the API counts them."""


class StreamForm(Protocol):
    """Of one stream, from its first event to its last."""

    def changed(self, event: Event, fields: Fields) -> list[Event]:
        """What goes on for *event*: itself, the very same, where nothing has changed; or others, or none."""
        ...

    def closed(self, fields: Fields) -> list[Event]:
        """What is still to go on when the stream ends without having said so."""
        ...

    def blocked(self, error: GatewayError, error_event: ErrorEvent) -> bytes:
        """The end of a stream that must not go on."""
        ...


def with_whole_texts(event: Event, fields: Fields) -> Event:
    """*event* with all of its texts, which come in one piece, changed."""
    texts = texts_in(event)
    changed: Event = without_tokens(with_texts(event, [fields.whole(text) for text in texts]))
    return changed
