"""Server-sent events on their way from a worker to a client.

1. Bytes pass unchanged. An event is parsed only if it may contain usage, an abort, an error, or the end of the stream.
2. The client gets whole events, so an error event or the end never appears inside another event.
3. Neither the output nor the observed values depend on how the network splits the stream into packets.

`StreamObserver` splits a stream into events. Its subclasses know what the events of an API mean.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from gateway.protocol.errors import DECODE_ERRORS, GatewayError
from gateway.protocol.json_fields import UsageFields
from gateway.protocol.usage import Usage, usage_from

NO_ERROR = frozenset({b"", b"null"})
"""Values of the field ``error`` that mean no error. Some servers send the field in every event."""


class StreamObserver(ABC):
    """Observer of a stream, which removes the events that the caller must not see.

    A usual read needs a few substring searches, which take about a microsecond. Lines may end with LF or CRLF, but not
    with a single CR.
    """

    __slots__ = (
        "_held",
        "_max_held",
        "_oversize",
        "_passed",
        "_prelude_bytes",
        "aborted",
        "begun",
        "done",
        "events",
        "failed",
        "next_sequence_number",
        "response_id",
        "usage",
    )

    def __init__(self, *, max_held: int) -> None:
        """Create an observer. An incomplete event is held up to *max_held* bytes. A longer event passes unparsed."""
        self._max_held = max_held
        self._held = bytearray()  # start of an event, without line ends before it
        self._oversize = False  # the rest of an event longer than the limit is still to come
        self._passed = b""  # last bytes of such an event that passed, which may be half of its end
        self._prelude_bytes = 0  # bytes that passed before the answer began

        self.begun = False
        """Whether a part of the answer has passed. Comments, annotations and announcements do not count as parts.

        As long as this is false, the output can be discarded and another worker tried. It also becomes true after
        *max_held* bytes, which bounds the memory for held output.
        """
        self.usage: Usage | None = None
        """Latest token usage, from the end of the stream or from every event, or None."""
        self.done = False
        """Whether the end of the stream that the API requires has arrived, so that the answer is complete."""
        self.aborted = False
        """Whether the engine aborted the request. When vLLM shuts down, it aborts requests without an error."""
        self.failed: bytes | None = None
        """JSON of the first error event, or None. Engines send status 200 before they know whether they will fail."""
        self.response_id: str | None = None
        """Id under which the worker stores the response, or None if the API has no such ids."""
        self.events = 0
        """Number of events that passed, about one per token. It replaces the usage of a stream whose end is missing."""
        self.next_sequence_number = 0
        """Sequence number for an additional event, for APIs that number their events."""

    @property
    def inside_event(self) -> bool:
        """Whether the output ends inside an event, so that a blank line must come before the next event."""
        return self._oversize

    def feed(self, data: bytes) -> bytes:
        """Return the output for the worker's data *data*, or ``b""`` while an event is incomplete."""
        if not self._held and not self._oversize and data.endswith(b"\n\n"):
            passes = self._visible(data)  # most reads: whole events
        else:
            passes = self._passes(data)
        self.events += passes.count(b"\n\n")
        if not self.begun:
            self._look_for_begin(passes)
        return passes

    def finish(self) -> bytes:
        """Return the remaining output, such as an event without a final blank line, when the worker ends the stream
        regularly.

        This must not be called after a broken connection. Half an event is useless, and no error event could follow it.
        """
        last = bytes(self._held)
        self._held.clear()
        self._oversize = False
        if not last or not self._may_pass(last):
            return b""
        if not self.begun:
            self._look_for_begin(last)
        return last

    @abstractmethod
    def _may_matter(self, events: bytes) -> bool:
        """Return whether *events* might contain an event that must be parsed. Text in answers can look the same and is
        then parsed, too.
        """

    @abstractmethod
    def _may_data_pass(self, data: bytes, event: bytes) -> bool:
        """Record an *event* whose data *data* is not ``[DONE]``. Return whether the caller is allowed to see it."""

    @abstractmethod
    def _may_end_pass(self) -> bool:
        """Record the ``[DONE]`` event. Return whether the caller is allowed to see it."""

    def _begins(self, data: bytes, event: bytes) -> bool:  # noqa: ARG002  # subclasses look at the name of the event
        """Return whether *event* is part of an answer. *data* is neither empty nor the end marker."""
        return True

    def _note_oversize(self, beginning: bytes) -> None:  # noqa: B027  # most APIs need nothing here
        """Record an event that starts with *beginning* and is too long to be parsed."""

    def _passes(self, data: bytes) -> bytes:
        if self._oversize:
            rest, data = self._rest_of_oversize(data)
            return rest + self._passes(data) if data else rest
        held = self._held
        searched_to = len(held)
        held += data
        end = _end_of_events(held, max(0, searched_to - 2))
        whole = bytes(held[:end])
        del held[:end]
        passes = self._visible(whole)
        return passes + self._take_unheld() if held else passes

    def _look_for_begin(self, passes: bytes) -> None:
        self._prelude_bytes += len(passes)
        self.begun = self._prelude_bytes > self._max_held or any(map(self._is_begin, events_in(passes)))

    def _is_begin(self, event: bytes) -> bool:
        data = data_of(event)
        return data not in _NO_ANSWER and self._begins(data, event)

    def _rest_of_oversize(self, data: bytes) -> tuple[bytes, bytes]:
        """Split *data* at the end of the oversized event that is currently being passed on."""
        seen = self._passed + data
        if end := _blank_line(seen):
            self._oversize = False
            cut = end.end() - len(self._passed)
            return data[:cut], data[cut:]
        self._passed = seen[-2:]
        return data, b""

    def _take_unheld(self) -> bytes:
        """Return output that need not be held, such as line ends between events, or an event that is too long."""
        held = self._held
        begin = len(held) - len(held.lstrip(b"\r\n"))
        if len(held) - begin > self._max_held:
            self._oversize = True
            self._passed = bytes(held[-2:])
            self._note_oversize(bytes(held[begin : begin + _BEGINNING_BYTES]))
            begin = len(held)
        passes = bytes(held[:begin])
        del held[:begin]
        return passes

    def _visible(self, whole: bytes) -> bytes:
        """Return whole events, without the events that the caller must not see."""
        if not self._may_matter(whole):
            return whole
        return b"".join([piece for piece in events_in(whole) if self._may_pass(piece)])

    def _may_pass(self, event: bytes) -> bool:
        """Record *event*. Return whether the caller is allowed to see it."""
        if len(event) > self._max_held:
            self._note_oversize(event[:_BEGINNING_BYTES])
            return True
        if not self._may_matter(event):
            return True
        data = data_of(event)
        if data == _DONE:
            return self._may_end_pass()
        return not data or self._may_data_pass(data, event)


class ChunkObserver(StreamObserver):
    """Observer of OpenAI's chunks, which removes the usage chunk if the caller has not requested it.

    The stream is `done` at ``data: [DONE]``. This mark passes once, but not after an error, where engines send it too.
    The stream is `aborted` if a choice finishes with the reason ``abort``.
    """

    __slots__ = ("_strip_usage",)

    def __init__(self, *, strip_usage: bool, max_held: int = 64 * 1024) -> None:
        super().__init__(max_held=max_held)
        self._strip_usage = strip_usage

    def _may_matter(self, events: bytes) -> bool:
        if b'"error"' in events or b'"abort"' in events or _DONE in events:
            return True
        # OpenAI's own chunks all have "usage":null.
        return b'"usage"' in events and events.count(b'"usage"') != events.count(b'"usage":null')

    def _may_end_pass(self) -> bool:
        is_true = not self.done and self.failed is None
        self.done = True
        return is_true

    def _may_data_pass(self, data: bytes, event: bytes) -> bool:  # noqa: ARG002  # chunks have no names
        try:
            chunk = _decode_chunk(data)
        except DECODE_ERRORS:
            return True  # not a chunk
        error = bytes(chunk.error)
        if self.failed is None and error not in NO_ERROR:
            self.failed = error
        if self.failed is None and chunk.object == "error":
            self.failed = data
        if chunk.choices and any(choice.finish_reason == "abort" for choice in chunk.choices):
            self.aborted = True
        if chunk.usage is None:
            return True
        self.usage = usage_from(chunk.usage)
        return not (self._strip_usage and chunk.choices == [])


class NamedEventObserver(StreamObserver):
    """Observer of events with names, both in an ``event:`` line and as the ``type`` in their data.

    The end of the stream is also an event. Some engines send ``[DONE]`` after it, which passes once, but not after an
    error. Without the end event, ``[DONE]`` would wrongly report a success.
    """

    __slots__ = ("_ended",)

    PRELUDE: ClassVar[frozenset[str]]
    """Names of events that only announce an answer. Engines send them before they know whether they will succeed."""
    ENDS: ClassVar[frozenset[str]]
    FAILURES: ClassVar[frozenset[str]]

    def __init__(self, *, max_held: int) -> None:
        super().__init__(max_held=max_held)
        self._ended = False

    @abstractmethod
    def _note(self, name: str, data: bytes) -> None:
        """Record the event *name* and its JSON data *data*."""

    def _may_end_pass(self) -> bool:
        is_true = self.done and self.failed is None and not self._ended
        self._ended = True
        return is_true

    def _may_data_pass(self, data: bytes, event: bytes) -> bool:
        name = _name_of(data, event)
        if name in self.ENDS:
            self.done = True
        self._note(name, data)
        return True

    def _begins(self, data: bytes, event: bytes) -> bool:
        return _name_of(data, event) not in self.PRELUDE

    def _note_oversize(self, beginning: bytes) -> None:
        name = _name_of(b"", beginning)
        if name in self.ENDS:
            self.done = True
        if name in self.FAILURES and self.failed is None:
            self.failed = b"{}"


def error_event(error: GatewayError) -> bytes:
    """Return *error* as the last event of a stream. ``[DONE]`` does not follow, because the answer is incomplete."""
    return b"data: " + error.to_body() + b"\n\n"


def events_in(whole: bytes) -> Iterator[bytes]:
    """Yield the events in *whole*, which ends with a blank line. Line ends between events are separate pieces."""
    place = 0
    while place < len(whole):
        line_ends = _line_ends(whole, place)
        if line_ends and line_ends[0]:
            yield line_ends[0]
            place = line_ends.end()
            continue
        end = _blank_line(whole, place)
        stop = end.end() if end else len(whole)
        yield whole[place:stop]
        place = stop


def data_of(event: bytes) -> bytes:
    """Return the joined ``data:`` lines of *event*, or ``b""`` for a comment or an annotation that has only a name."""
    return b"\n".join(_data_lines(event)).strip()


class _ChunkChoice(msgspec.Struct, gc=False):
    finish_reason: Any = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_ChunkChoice] | None = None
    usage: UsageFields | None = None
    error: msgspec.Raw = msgspec.Raw()
    object: str | None = None  # SGLang's errors are flat: {"object": "error", "message": ...}


class _Typed(msgspec.Struct, gc=False):
    type: str | None = None


_decode_chunk = msgspec.json.Decoder(_Chunk).decode
_decode_typed = msgspec.json.Decoder(_Typed).decode
_blank_line = re.compile(rb"\n\r?\n").search
_line_ends = re.compile(rb"[\r\n]*").match
_data_lines = re.compile(rb"^data:([^\r\n]*)", re.MULTILINE).findall
_event_line = re.compile(rb"^event:[ ]?([^\r\n]*)\r?\n", re.MULTILINE).search

_DONE = b"[DONE]"
_NO_ANSWER = frozenset({b"", _DONE})
_BEGINNING_BYTES = 256
"""Number of bytes to read of an oversized event, which is enough for the event's name."""


def _name_of(data: bytes, event: bytes) -> str:
    """Return the name of *event*: the ``type`` in *data*, otherwise the ``event:`` line, otherwise ``""``."""
    try:
        if name := _decode_typed(data).type:
            return name
    except DECODE_ERRORS:
        pass
    line = _event_line(event)
    return line[1].decode("utf-8", "replace") if line else ""


def _end_of_events(data: bytearray, start: int) -> int:
    """Return the end of the last blank line in *data* from *start* on, or 0 if there is no blank line."""
    lf, crlf = data.rfind(b"\n\n", start), data.rfind(b"\n\r\n", start)
    return lf + 2 if lf > crlf else crlf + 3 if crlf >= 0 else 0
