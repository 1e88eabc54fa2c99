"""Check a stream of server-sent events while forwarding it.

1. The result does not depend on how the network or the engine split the stream.
2. An event without changes is forwarded byte for byte.
3. If a stream breaks off, text that is held back is not sent, because it may be the beginning of a match.
"""

import re

import msgspec

from gateway.protocol.errors import DECODE_ERRORS, ReplyBroken
from gateway.protocol.sse import data_of, events_in
from gateway.proxy.guardrails.fields import KeptFields, StreamTexts
from gateway.proxy.guardrails.filter import Text
from gateway.proxy.guardrails.stream_form import Event, StreamForm

LARGEST_EVENT_BYTES = 8 * 2**20
"""Maximum size of an event in bytes. A larger event cannot be checked, so it ends the stream."""
LARGEST_KEPT_BYTES = 64 * 2**20
"""Maximum size in bytes of a stream to buffer for a service that must check whole texts."""

_last_blank_line = re.compile(rb"\n\r?\n")
_DONE = b"[DONE]"


class GuardedStream:
    """Stream of events that are forwarded. *form* parses the events, and *fields* changes their texts."""

    def __init__(self, form: StreamForm, fields: StreamTexts) -> None:
        self._form = form
        self._fields = fields
        self._held = bytearray()
        self._searched = 0

    def passed(self, data: bytes) -> bytes:
        """Return the bytes to send to the caller for *data*, which is the next part of the stream.

        Raises:
            ContentBlocked: if a guardrail blocks the answer. Nothing more may be sent.
            ReplyBroken: if an event is too large to be checked.
        """
        held = self._held
        held += data
        end = 0
        for blank_line in _last_blank_line.finditer(held, max(0, self._searched - 2)):
            end = blank_line.end()
        self._searched = len(held) - end
        whole = bytes(held[:end])
        del held[:end]
        if len(held) > LARGEST_EVENT_BYTES:
            raise ReplyBroken("The worker sent an event that is too large for a guardrail to read")
        return b"".join([self._event(event) for event in events_in(whole)]) if whole else b""

    def finish(self, data: bytes = b"") -> bytes:
        """Return the remaining bytes of a stream that ended properly with *data*. Raise the errors of `passed`."""
        changed = self.passed(data)
        rest = bytes(self._held)
        self._held.clear()
        if rest.strip():
            changed += self._event(rest)
        return changed + self._closed()

    def _event(self, event: bytes) -> bytes:
        data = data_of(event)
        if not data:
            return event
        if data == _DONE:
            return self._closed() + event
        try:
            read = _decode(data)
        except DECODE_ERRORS:
            text = data.decode("utf-8", "replace")
            said = self._fields.whole(Text(text))
            return event if said == text else b"data: " + " ".join(said.splitlines()).encode() + b"\n\n"
        try:
            changed = self._form.changed(read, self._fields)
        except RecursionError:
            raise ReplyBroken("The worker sent an event that is nested too deeply for a guardrail to read") from None
        if len(changed) == 1 and changed[0] is read:
            return event
        is_named = event.startswith(b"event:") or b"\nevent:" in event
        return b"".join([event if each is read else written(each, is_named=is_named) for each in changed])

    def _closed(self) -> bytes:
        left = self._form.closed(self._fields)
        return b"".join([written(event, is_named="type" in event and "choices" not in event) for event in left])


def written(event: Event, *, is_named: bool) -> bytes:
    """Return *event* as bytes. If *is_named* is true, the event's type is also its name."""
    name = b"event: " + str(event.get("type", "")).encode() + b"\n" if is_named else b""
    return name + b"data: " + msgspec.json.encode(event) + b"\n\n"


class KeptStream:
    """Buffer for a whole stream, so that all texts in it can be checked together."""

    def __init__(self, form: StreamForm) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._seen = KeptFields()
        self._reading = GuardedStream(form, self._seen)

    def keep(self, data: bytes) -> None:
        """Add *data*, which consists of complete events, to the buffer. Raise ReplyBroken if the buffer is full."""
        self._pieces.append(data)
        self._size += len(data)
        if self._size > LARGEST_KEPT_BYTES:
            raise ReplyBroken("The worker's answer is too long for a guardrail to buffer")
        self._reading.passed(data)

    def texts(self) -> list[Text]:
        """Return all texts of the buffered stream, which must have ended."""
        self._reading.finish()
        return self._seen.texts

    def rewritten(self, form: StreamForm, texts: "tuple[str, ...] | None") -> bytes:
        """Return the buffered stream with its texts replaced with *texts*, or unchanged if *texts* is None. *form*
        parses the events.
        """
        data = b"".join(self._pieces)
        return data if texts is None else GuardedStream(form, self._seen.replaced(texts)).finish(data)


_decode = msgspec.json.Decoder(dict).decode
