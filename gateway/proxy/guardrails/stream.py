"""A stream of server-sent events, looked at as it goes by.

1. What comes out does not depend on how the network, or the engine, cut the stream into pieces.
2. An event in which nothing has changed comes out as the bytes that it came as.
3. A stream that breaks off is not flushed: what waited may be the beginning of what must not come out.
"""

import re

import msgspec

from gateway.protocol.errors import DECODE_ERRORS, ReplyBroken
from gateway.protocol.sse import data_of, events_in
from gateway.proxy.guardrails.fields import KeptFields, StreamTexts
from gateway.proxy.guardrails.filter import Text
from gateway.proxy.guardrails.stream_form import Event, StreamForm

LARGEST_EVENT_BYTES = 8 * 2**20
"""An event that cannot be read cannot be looked at: one that is larger ends the stream."""
LARGEST_KEPT_BYTES = 64 * 2**20
"""Most bytes of a stream that a service has to see whole."""

_last_blank_line = re.compile(rb"\n\r?\n")
_DONE = b"[DONE]"


class GuardedStream:
    """Passes on the events of one stream as *form* changes them with *fields*."""

    def __init__(self, form: StreamForm, fields: StreamTexts) -> None:
        self._form = form
        self._fields = fields
        self._held = bytearray()
        self._searched = 0

    def passed(self, data: bytes) -> bytes:
        """Return what the caller gets for *data*.

        Raises:
            ContentBlocked: nothing more.
            ReplyBroken: an event is too large to be read.
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
        """Return the rest of a stream that ended properly; *data* is its last piece. Raises as `passed`."""
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
    """*event* as bytes; *is_named*: with its type as its name."""
    name = b"event: " + str(event.get("type", "")).encode() + b"\n" if is_named else b""
    return name + b"data: " + msgspec.json.encode(event) + b"\n\n"


class KeptStream:
    """Buffers the events of a stream until its end, where all of its texts are checked together."""

    def __init__(self, form: StreamForm) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._seen = KeptFields()
        self._reading = GuardedStream(form, self._seen)

    def keep(self, data: bytes) -> None:
        """*data* is whole events. Raises ReplyBroken: they are too many."""
        self._pieces.append(data)
        self._size += len(data)
        if self._size > LARGEST_KEPT_BYTES:
            raise ReplyBroken("The worker's answer is too long for a guardrail to buffer")
        self._reading.passed(data)

    def texts(self) -> list[Text]:
        """All texts of the stream, which has ended."""
        self._reading.finish()
        return self._seen.texts

    def rewritten(self, form: StreamForm, texts: "tuple[str, ...] | None") -> bytes:
        """Stream with *texts* in place of its own, inserted by *form*; None: unchanged."""
        data = b"".join(self._pieces)
        return data if texts is None else GuardedStream(form, self._seen.replaced(texts)).finish(data)


_decode = msgspec.json.Decoder(dict).decode
