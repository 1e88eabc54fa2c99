"""Server-sent events as they pass from a worker to a client.

1. Bytes go on as they came. An event is read only if it may be one of the few that matter: usage, abort, error, end.
2. Downstream gets whole events, so that an error event, or the end, never lands in the middle of another event.
3. What comes out, and what is learnt, does not depend on how the network cut the stream into packets.

`Tail` cuts a stream into events; what an event means is for the class derived from it that knows the API.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from gateway.errors import GatewayError
from gateway.unreadable import UNREADABLE
from gateway.usage import Usage, usage_told
from gateway.usage_fields import UsageFields

NO_ERROR = frozenset({b"", b"null"})
"""An ``error`` that is none: some servers list every field."""


class Tail(ABC):
    """Watches a stream go by, and takes out what the caller must not see.

    An ordinary read costs some substring searches, about a microsecond. Line ends may be LF or CRLF, not a lone CR.
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
        """*max_held* bytes at most of an unfinished event are kept back; a longer event passes unread as it comes."""
        self._max_held = max_held
        self._held = bytearray()  # the beginning of an event, without line ends before it
        self._oversize = False  # the rest of a longer event than can be held is still to come
        self._passed = b""  # of such an event: the last bytes that went on, which may be half of its end
        self._prelude_bytes = 0  # what went on before the answer began

        self.begun = False
        """Part of an answer has come out; comments, annotations and announcements are none.

        As long as this is false, what came out can be thrown away and another worker asked. So that nobody has to keep
        much of it, this is true as well after *max_held* bytes.
        """
        self.usage: Usage | None = None
        """The last that came: at the end of the stream, or with every event what it cost so far."""
        self.done = False
        """The end that the API prescribes has come: the answer is complete."""
        self.aborted = False
        """The engine gave up: a vLLM that shuts down answers so, as if all were well."""
        self.failed: bytes | None = None
        """JSON of the first error that came as an event: engines answer 200 before they know that they fail."""
        self.response_id: str | None = None
        """Under which the worker keeps this response, where the API knows such a thing."""
        self.events = 0
        """That came out, about one for each token: what a stream cost of which the end was not seen."""
        self.next_sequence_number = 0
        """For one more event, where the API counts them."""

    @property
    def inside_event(self) -> bool:
        """The bytes sent downstream end inside an event: whatever is not its rest needs a blank line before it."""
        return self._oversize

    def feed(self, data: bytes) -> bytes:
        """What to send downstream for *data* from upstream; ``b""`` while an event is incomplete."""
        if not self._held and not self._oversize and data.endswith(b"\n\n"):
            passes = self._watched(data)  # as most reads: whole events
        else:
            passes = self._passes(data)
        self.events += passes.count(b"\n\n")
        if not self.begun:
            self._look_for_begin(passes)
        return passes

    def finish(self) -> bytes:
        """Upstream has ended as it should: what is left of an event that no blank line closed.

        After a broken connection do not call this: half an event is worth nothing, and an error event could not follow.
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
        """Whether *events* may hold one to act upon. Text can look the same, so a yes is only a reason to read it."""

    @abstractmethod
    def _may_data_pass(self, data: bytes, event: bytes) -> bool:
        """Take note of an *event* with *data*, and not ``[DONE]``; False if the caller must not see it."""

    @abstractmethod
    def _may_end_pass(self) -> bool:
        """Take note of ``[DONE]``; False if the caller must not see it."""

    def _begins(self, data: bytes, event: bytes) -> bool:  # noqa: ARG002  # the name of an event may say that it does not
        """Whether *event* is part of an answer. *data* is neither empty nor the mark of the end."""
        return True

    def _note_oversize(self, beginning: bytes) -> None:  # noqa: B027  # most APIs say nothing there
        """Take note of the *beginning* of an event that is too long to be read."""

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
        passes = self._watched(whole)
        return passes + self._not_to_hold() if held else passes

    def _look_for_begin(self, passes: bytes) -> None:
        self._prelude_bytes += len(passes)
        self.begun = self._prelude_bytes > self._max_held or any(map(self._is_begin, events_in(passes)))

    def _is_begin(self, event: bytes) -> bool:
        data = data_of(event)
        return data not in _NO_ANSWER and self._begins(data, event)

    def _rest_of_oversize(self, data: bytes) -> tuple[bytes, bytes]:
        """*data* cut where the event in passing ends."""
        seen = self._passed + data
        if end := _blank_line(seen):
            self._oversize = False
            cut = end.end() - len(self._passed)
            return data[:cut], data[cut:]
        self._passed = seen[-2:]
        return data, b""

    def _not_to_hold(self) -> bytes:
        """Of the unfinished rest: line ends before an event, which belong to none, and an event that is too long."""
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

    def _watched(self, whole: bytes) -> bytes:
        """Whole events, without those that the caller must not see."""
        if not self._may_matter(whole):
            return whole
        return b"".join([piece for piece in events_in(whole) if self._may_pass(piece)])

    def _may_pass(self, event: bytes) -> bool:
        """Take note of *event*; False if the caller must not see it."""
        if len(event) > self._max_held:
            self._note_oversize(event[:_BEGINNING_BYTES])
            return True
        if not self._may_matter(event):
            return True
        data = data_of(event)
        if data == _DONE:
            return self._may_end_pass()
        return not data or self._may_data_pass(data, event)


class StreamTail(Tail):
    """Watches OpenAI's chunks, and takes out the usage chunk where the caller has not asked for it.

    It is `done` at ``data: [DONE]``, which passes once, and not after an error: engines send it all the same. It is
    `aborted` when a choice finished with reason ``abort``.
    """

    __slots__ = ("_strip_usage",)

    def __init__(self, *, strip_usage: bool, max_held: int = 64 * 1024) -> None:
        super().__init__(max_held=max_held)
        self._strip_usage = strip_usage

    def _may_matter(self, events: bytes) -> bool:
        if b'"error"' in events or b'"abort"' in events or _DONE in events:
            return True
        # OpenAI's own chunks say "usage":null all along.
        return b'"usage"' in events and events.count(b'"usage"') != events.count(b'"usage":null')

    def _may_end_pass(self) -> bool:
        is_true = not self.done and self.failed is None
        self.done = True
        return is_true

    def _may_data_pass(self, data: bytes, event: bytes) -> bool:  # noqa: ARG002  # chunks have no names
        try:
            chunk = _decode_chunk(data)
        except UNREADABLE:
            return True  # no chunk: nothing of ours
        error = bytes(chunk.error)
        if self.failed is None and error not in NO_ERROR:
            self.failed = error
        if self.failed is None and chunk.object == "error":
            self.failed = data
        if chunk.choices and any(choice.finish_reason == "abort" for choice in chunk.choices):
            self.aborted = True
        if chunk.usage is None:
            return True
        self.usage = usage_told(chunk.usage)
        return not (self._strip_usage and chunk.choices == [])


class NamedTail(Tail):
    """Watches events that have a name, in an ``event:`` line and as the ``type`` of their data.

    The end is an event too. A ``[DONE]`` after it, as some engines send, passes once, and not after an error; one
    without it would claim a success that there was not.
    """

    __slots__ = ("_ended",)

    PRELUDE: ClassVar[frozenset[str]]
    """Events that only announce an answer: engines send them before they know whether there will be one."""
    ENDS: ClassVar[frozenset[str]]
    FAILURES: ClassVar[frozenset[str]]

    def __init__(self, *, max_held: int) -> None:
        super().__init__(max_held=max_held)
        self._ended = False

    @abstractmethod
    def _note(self, name: str, data: bytes) -> None:
        """Take note of the event *name* with *data*, which is JSON."""

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
    """*error* as the last event of a stream that had begun. No ``[DONE]`` follows it: the answer is not complete."""
    return b"data: " + error.to_body() + b"\n\n"


def events_in(whole: bytes) -> Iterator[bytes]:
    """The events of *whole*, which ends with a blank line; line ends between events come as pieces of their own."""
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
    """The ``data:`` lines of *event* as one; ``b""`` for comments and for annotations that have only a name."""
    return b"\n".join(_data_lines(event)).strip()


class _Choice(msgspec.Struct, gc=False):
    finish_reason: Any = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
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
"""Of an event too long to be read: enough for its name."""


def _name_of(data: bytes, event: bytes) -> str:
    """What *event* is: the ``type`` in its *data*, else its ``event:`` line, else ``""``."""
    try:
        if name := _decode_typed(data).type:
            return name
    except UNREADABLE:
        pass
    line = _event_line(event)
    return line[1].decode("utf-8", "replace") if line else ""


def _end_of_events(data: bytearray, start: int) -> int:
    """Where the last blank line of *data* from *start* on ends; 0 if there is none."""
    lf, crlf = data.rfind(b"\n\n", start), data.rfind(b"\n\r\n", start)
    return lf + 2 if lf > crlf else crlf + 3 if crlf >= 0 else 0
