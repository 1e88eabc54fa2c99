"""One stream that goes on at another worker when its own is lost.

1. What the caller has seen is never taken back: another worker goes on behind the last token of which all text is out.
   An event whose tokens may have more text than it shows (half a character, what may be the beginning of a tag) is kept
   back until the next one settles it; if none comes, its tokens are generated again.
2. Where it cannot be exact it is not done, unless the setting allows to go on by text.
3. An error, or the abort of an engine that stops, does not come out of here: whether it is told is not known yet.
4. All lives of a stream have the id, time and model of the first, one role, one finish and one usage.

Pure: bytes in, bytes and values out.
"""

import re
from enum import Enum
from typing import Literal

import msgspec
from msgspec import Raw

from gateway.backends.backend import Call
from gateway.body import Body
from gateway.continuation.calls import CHAT_PATH, DEFAULT_TOKENS, KEPT, TEXT_PATH, by_text, by_tokens, telling_ids
from gateway.continuation.chunk import Choice, Chunk, Head, chunk_of, payload_of, usage_json, without_ids
from gateway.continuation.eligibility import Fields, is_exact_by_tokens, is_possible_by_text
from gateway.continuation.overlap import Overlap
from gateway.continuation.prompt_cache import PromptCache
from gateway.continuation.transcript import MOST_IDS, Transcript
from gateway.errors import ReplyBroken
from gateway.splice import Places
from gateway.sse import StreamTail, events_in
from gateway.usage import Usage, usage_told
from gateway.usage_fields import UsageFields

Mode = Literal["off", "tokens", "text"]

MAX_HELD = 16 * MOST_IDS
"""Bytes of one event: `MOST_IDS` ids of ten digits, each with a comma and some white space."""
MOST_UNSETTLED = 16
"""Events kept back one after the other. More are neither a character nor a tag in the making."""


def continuation_of(
    path: str, call: Call, body: Body, *, mode: Mode, places: Places | None = None
) -> "Continuation | None":
    """What it takes to go on with the stream that *call* asks for, or None where nobody could.

    *path* is that of the endpoint, *body* what was read of the caller's bytes, ``call.body`` the bytes for the worker.
    *places* are those of its fields, which are else looked for: O(bytes), a millisecond for each megabyte.
    """
    if mode == "off" or not body.streams or body.n != 1 or path not in {CHAT_PATH, TEXT_PATH}:
        return None
    fields = _fields_of(call.body, places)
    may_by_tokens = is_exact_by_tokens(fields)
    may_by_text = mode == "text" and is_possible_by_text(fields)
    if not may_by_tokens and not may_by_text:
        return None
    return Continuation(
        telling_ids(call, places) if may_by_tokens else call,
        body,
        {**fields, "return_token_ids": _TRUE} if may_by_tokens else fields,
        is_chat=path == CHAT_PATH,
        asks_ids=bytes(fields.get("return_token_ids", b"")) == b"true",
        may_by_tokens=may_by_tokens,
        may_by_text=may_by_text,
    )


class Way(Enum):
    """How a worker goes on, or begins."""

    AS_ASKED = "as asked"
    """With the caller's own request, from the beginning."""
    TOKENS = "tokens"
    TEXT = "text"


class Continuation:
    """Keeps what another worker needs, and makes of several answers one stream.

    Made for each stream of a model that is gone on with; costs some microseconds for an event, and 4 bytes for a token.
    """

    __slots__ = (
        "_asks_ids",
        "_asks_usage",
        "_fields",
        "_has_begun",
        "_has_content",
        "_has_reasoned",
        "_head",
        "_held",
        "_is_chat",
        "_is_content_due",
        "_is_done",
        "_is_finished",
        "_is_lost",
        "_is_opaque",
        "_is_other",
        "_is_proved",
        "_is_stopped",
        "_is_usage_told",
        "_kept_tokens",
        "_least",
        "_may_by_text",
        "_may_by_tokens",
        "_most",
        "_overlap",
        "_prompt_cache",
        "_transcript",
        "_way",
        "call",
        "splices",
    )

    def __init__(
        self,
        call: Call,
        body: Body,
        fields: Fields,
        *,
        is_chat: bool,
        asks_ids: bool,
        may_by_tokens: bool,
        may_by_text: bool,
    ) -> None:
        self.call = call
        """The first one: asks for token ids. Its body is forgotten when it can be of no use any more."""
        self.splices = 0
        """How often another worker went on."""
        if not may_by_text:  # a value holds all the bytes that it is a part of
            fields = {name: value.copy() for name, value in fields.items() if name in KEPT}
        self._fields: Fields = fields
        self._most = DEFAULT_TOKENS if body.max_tokens is None and not is_chat else body.max_tokens
        self._least = _number(fields.get("min_tokens"))
        self._is_chat = is_chat
        self._asks_ids = asks_ids
        self._asks_usage = body.asks_usage
        self._may_by_tokens = may_by_tokens
        self._may_by_text = may_by_text
        self._transcript = Transcript(keeps_text=may_by_text)
        self._prompt_cache = PromptCache()
        self._head: Head | None = None
        self._held: list[bytes] = []
        self._is_content_due = False  # some has come, but may be kept back
        self._has_begun = False  # the caller has seen something
        self._has_content = False  # it has seen some of the answer proper
        self._has_reasoned = False
        self._is_finished = False
        self._is_done = False
        self._is_usage_told = False
        self._is_lost = False  # something came that nobody can go on from
        self._is_opaque = False  # an event too long to be read is passing, or has passed
        # Of the present worker
        self._way = Way.AS_ASKED
        self._kept_tokens = 0  # of the answer, which others generated
        self._is_other = False  # it is not the one whose events the caller has seen first
        self._is_proved = True  # it has told that it goes on from where it was to
        self._is_stopped = False  # it has failed
        self._overlap: Overlap | None = None

    def tail(self, *, strip_usage: bool) -> StreamTail:
        """What watches the stream of one worker, in place of the endpoint's: it can hold the ids of a long prompt."""
        return StreamTail(strip_usage=strip_usage, max_held=MAX_HELD)

    def passed(self, events: bytes) -> bytes:
        """What the caller gets of *events*, which came out of `tail`. Ends before an error or an abort.

        Raises:
            ReplyBroken: the worker does not go on from where it was to; nothing of its answer came out.
        """
        if self._is_stopped:
            return b""
        if self._is_opaque or len(events) > MAX_HELD:
            self._is_opaque = self._is_lost = True
            return self._let_out(events)
        if events.count(b"\n\n") == 1 and events.endswith(b"\n\n"):
            return self._event(events)
        return b"".join([self._event(event) for event in events_in(events)])

    def next_call(self) -> Call | None:
        """How another worker goes on from here; None: it cannot. Changes nothing, may be called again. O(tokens)."""
        way = self._next_way()
        transcript = self._transcript
        most = self._most and self._most - transcript.settled_tokens
        least = max(0, self._least - transcript.settled_tokens)
        if way is Way.TOKENS:
            return by_tokens(self.call, self._fields, transcript.settled, most=most, least=least)
        if way is Way.TEXT:
            return by_text(self.call, self._fields, transcript.text, most=most, least=least)
        return self.call if way is Way.AS_ASKED else None

    def resumed(self, *, hit_share: float | None = None) -> None:
        """The next events come from the worker that got `next_call`, which was one.

        *hit_share* is the share of the prompt that the lost worker was predicted to have; None: nothing was predicted.
        """
        way, transcript = self._next_way(), self._transcript
        assert way is not None, "it could not be gone on with"
        if way is Way.AS_ASKED:
            self._prompt_cache.restart()
        elif hit_share is not None and not self.is_spliced:
            self._prompt_cache.predicted(hit_share)
        self._held.clear()
        self._is_content_due = False
        self._overlap = None
        if way is Way.AS_ASKED:
            transcript.restart()
        elif way is Way.TOKENS:
            transcript.roll_back()
        else:
            self._overlap = Overlap(transcript.text)
            transcript.leave_ids()
        self.splices += 1
        self._way = way
        self._kept_tokens = transcript.tokens
        self._is_other = self._has_begun
        if not self._has_begun:
            self._head = None
        self._is_proved = way is not Way.TOKENS
        self._is_stopped = False

    def closing(self) -> bytes | None:
        """What ends the stream truthfully, where nothing but its end was lost; None where more was.

        The finish had come, or as many tokens as may come.
        """
        if self._is_done:
            return b""
        head = self._head
        pieces: list[bytes] = []
        if head is None or self._is_lost:
            return None
        if not self._is_finished:
            if not self._has_content or self._most is None or self._transcript.settled_tokens < self._most:
                return None
            pieces.append(head.finish("length"))
        usage = self.usage(None)
        if self._asks_usage and not self._is_usage_told and usage is not None:
            pieces.append(head.event(choices=[], usage=usage_json(usage)))
        self._is_finished = self._is_done = True
        return b"".join([*pieces, b"data: [DONE]\n\n"])

    def usage(self, usage: Usage | None) -> Usage | None:
        """Of the whole answer so far; *usage* is what the tail of the present worker has seen.

        None where nobody told: without token ids, before the end.
        """
        transcript = self._transcript
        if usage is not None and not self.is_spliced:
            return usage
        prompt_tokens = transcript.prompt_tokens
        if prompt_tokens is None and usage is not None:
            prompt_tokens = max(0, usage.prompt_tokens - self._kept_tokens)
        if prompt_tokens is None:
            return None
        cached = self._prompt_cache.tokens(prompt_tokens, None if usage is None else usage.cached_tokens)
        if transcript.tells_ids:
            return Usage(prompt_tokens, transcript.tokens, cached)
        if usage is None:
            return None
        return Usage(prompt_tokens, self._kept_tokens + usage.completion_tokens, cached)

    @property
    def is_spliced(self) -> bool:
        """The present worker goes on with what others began: its own usage is not that of the answer."""
        return self._way is not Way.AS_ASKED

    def _next_way(self) -> Way | None:
        """How another worker can go on from here."""
        if self._is_finished or self._is_lost:
            return None
        transcript = self._transcript
        if not self._has_content:
            return None if self._has_reasoned else Way.AS_ASKED
        if self._most is not None and transcript.settled_tokens >= self._most:
            return None
        if self._may_by_tokens and transcript.tells_ids and transcript.prompt is not None:
            return Way.TOKENS
        return Way.TEXT if self._may_by_text and not self._has_reasoned else None

    def _event(self, event: bytes) -> bytes:
        if self._is_stopped:
            return b""
        data = payload_of(event)
        if not data:
            return event
        if data == b"[DONE]":
            self._is_done = True
            return self._let_out(event)
        chunk = chunk_of(data)
        if chunk is None:
            self._is_lost = True
            return self._let_out(event)
        if chunk.fails:
            self._is_stopped = True
            return b""
        return self._chunk(chunk, data, event)

    def _chunk(self, chunk: Chunk, data: bytes, event: bytes) -> bytes:
        if chunk.choices is None:
            return self._let_out(event)  # none of OpenAI's
        if self._head is None:
            self._head = Head(chunk.id, chunk.created, chunk.model, self._is_chat)
        if chunk.usage is not None and not self.is_spliced:
            self._note_cached(chunk.usage)
        if len(chunk.choices) != 1:
            self._is_lost = self._is_lost or bool(chunk.choices)
            self._is_usage_told = self._is_usage_told or chunk.usage is not None
            return self._let_out(self._as_ours(chunk, "", data, event))
        choice = chunk.choices[0]
        self._note_prompt(chunk.prompt_token_ids or choice.prompt_token_ids, choice)
        if self._is_other and choice.only_names_role:
            return b""
        content = choice.content
        if self._overlap is not None:
            content = self._overlap.fed(content, last=choice.finish_reason is not None)
        self._note(choice, content)
        if choice.is_bare and not self._asks_ids:
            return b""
        if self._overlap is not None and choice.content and not content and choice.finish_reason is None:
            return b""
        return self._when_settled(choice, self._as_ours(chunk, content, data, event))

    def _note_prompt(self, prompt: list[int] | None, choice: Choice) -> None:
        """Take note of the ids that the worker tells it follows; nothing of its answer has come out before."""
        if prompt:
            if self._way is not Way.TOKENS:
                self._transcript.begin(prompt)
            elif not self._is_proved and not self._transcript.follows(prompt):
                self._refuse()
            self._is_proved = True
        if not self._is_proved and self._most is None and not choice.only_names_role:
            self._refuse()

    def _note_cached(self, told: UsageFields) -> None:
        cached = usage_told(told).cached_tokens
        if cached is not None:
            self._prompt_cache.reported(cached)

    def _refuse(self) -> None:
        self._is_stopped = True
        raise ReplyBroken("The worker does not go on from the tokens that it was given")

    def _note(self, choice: Choice, content: str) -> None:
        self._is_lost = self._is_lost or choice.calls or choice.index != 0 or (choice.reasons and self._has_content)
        self._has_reasoned = self._has_reasoned or choice.reasons
        self._is_finished = self._is_finished or choice.finish_reason is not None
        self._transcript.add(choice.token_ids, content, says=bool(choice.content) or choice.reasons)
        self._is_content_due = self._is_content_due or bool(content)

    def _when_settled(self, choice: Choice, event: bytes) -> bytes:
        """*event*, behind those that waited for it; or nothing, while its tokens may have more text than it shows."""
        is_settled = choice.reasons or choice.finish_reason is not None or not choice.token_ids or self._is_lost
        if is_settled or self._has_all_text(choice) or len(self._held) >= MOST_UNSETTLED:
            self._transcript.settle()
            if self._is_content_due and not self._has_content:
                self._begin_content()
            return self._let_out(event)
        self._held.append(event)
        return b""

    def _begin_content(self) -> None:
        """From here on the answer is gone on with, and not begun anew."""
        self._has_content = True
        if not self._may_by_text:
            self.call = self.call.changed(body=b"")

    def _has_all_text(self, choice: Choice) -> bool:
        """Whether the text of *choice* is all that its ids stand for.

        Detokenizers keep back half a character, and show nothing then. vLLM's parsers of calls and reasoning keep back
        what may be the beginning of a tag, which may be the end of a token: " <" shows a blank, and owes the rest. Tags
        begin with ASCII signs, and tokenizers join no letters with signs behind them.
        """
        content = choice.content
        if not self._is_chat or not content:
            return bool(content)
        if len(choice.token_ids or ()) > 1:
            content = content[-1]
        return _letter(content) is not None

    def _let_out(self, event: bytes) -> bytes:
        self._has_begun = True
        if not self._held:
            return event
        held = b"".join(self._held)
        self._held.clear()
        return held + event

    def _as_ours(self, chunk: Chunk, content: str, data: bytes, event: bytes) -> bytes:
        """*event* as the caller gets it."""
        head = self._head
        if self._is_other and head is not None:
            return head.rewritten(data, content, self._whole_usage(chunk.usage), keeps_ids=self._asks_ids)
        return event if self._asks_ids or not self._may_by_tokens else without_ids(event)

    def _whole_usage(self, told: UsageFields | None) -> Usage | None:
        """What stands in for the usage that a worker *told* which went on; None: what it told is right."""
        return None if told is None or not self.is_spliced else self.usage(usage_told(told))


def _number(value: Raw | None) -> int:
    """*value*, or 0 where it is none: what an engine refuses need not be understood here."""
    number = None if value is None else msgspec.json.decode(value)
    return int(number) if isinstance(number, int | float) else 0


_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_TRUE = Raw(b"true")


def _fields_of(raw: bytes, places: Places | None) -> dict[str, Raw]:
    if places is None:
        return _decode_fields(raw)
    return {name: Raw(raw[start:end]) for name, start, end in places}


_letter = re.compile(r"[^\x00-\x7f]|[0-9A-Za-z]").search
