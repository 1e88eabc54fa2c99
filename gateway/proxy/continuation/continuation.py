"""Continue a stream on another worker after its first worker has failed.

1. Text that the caller has seen is final. Another worker continues after the last token whose text was sent completely.
   An event that shows only part of the text of its tokens, such as half a character or the possible beginning of a tag,
   is held until the next event arrives. If no event arrives, the tokens of the held event are generated again.
2. A stream that cannot be continued exactly is not continued, unless the setting allows continuation by text.
3. An error, or the abort of an engine that stops, is not sent to the caller, because another worker may continue.
4. All parts of a stream have the id, time and model of the first part. The stream has one role, one finish reason and
   one usage report.

This module does no I/O.
"""

import re

import msgspec
from msgspec import Raw

from gateway.backends.backend import Call
from gateway.models.model import ContinuationMode
from gateway.protocol.body import Body
from gateway.protocol.errors import ReplyBroken
from gateway.protocol.json_fields import UsageFields
from gateway.protocol.splice import Places
from gateway.protocol.sse import ChunkObserver, events_in
from gateway.protocol.usage import Usage, usage_from
from gateway.proxy.continuation.calls import CHAT_PATH, DEFAULT_TOKENS, TEXT_PATH, with_ids
from gateway.proxy.continuation.chunk import Chunk, ChunkChoice, Head, chunk_of, payload_of, usage_json, without_ids
from gateway.proxy.continuation.eligibility import Fields, is_exact_by_tokens, is_possible_by_text
from gateway.proxy.continuation.overlap import Overlap
from gateway.proxy.continuation.prompt_cache import PromptCache
from gateway.proxy.continuation.resumption import Resumption, Way
from gateway.proxy.continuation.transcript import MAX_IDS, Transcript

MAX_HELD = 16 * MAX_IDS
"""Size in bytes of the largest event that is read, with `MAX_IDS` token ids of ten digits and their separators."""
MAX_UNSETTLED = 16
"""Maximum number of consecutive events to hold. Neither a character nor a tag spans more events."""


def continuation_of(
    path: str, call: Call, body: Body, *, mode: ContinuationMode, places: Places | None = None
) -> "Continuation | None":
    """Return the state for continuing the stream that *call* requests, or None if no worker could continue the stream.

    The caller's request to the endpoint *path* was parsed into *body*, and `call.body` is the request for the worker.
    The positions of its fields are passed as *places*. If the positions are not known, the whole body is searched,
    which takes about 1 ms for a megabyte.
    """
    if mode == "off" or not body.streams or body.n != 1 or path not in {CHAT_PATH, TEXT_PATH}:
        return None
    fields = _fields_of(call.body, places)
    may_by_tokens = is_exact_by_tokens(fields)
    may_by_text = mode == "text" and is_possible_by_text(fields)
    if not may_by_tokens and not may_by_text:
        return None
    return Continuation(
        with_ids(call, places) if may_by_tokens else call,
        body,
        {**fields, "return_token_ids": _TRUE} if may_by_tokens else fields,
        is_chat=path == CHAT_PATH,
        asks_ids=bytes(fields.get("return_token_ids", b"")) == b"true",
        may_by_tokens=may_by_tokens,
        may_by_text=may_by_text,
    )


class Continuation:
    """State that lets another worker continue a stream. It also joins the answers of several workers into one stream.

    A continuation costs a few microseconds for each event and 4 bytes for each token.
    """

    __slots__ = (
        "_asks_ids",
        "_asks_usage",
        "_has_begun",
        "_has_content",
        "_has_reasoned",
        "_has_usage",
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
        "_kept_tokens",
        "_may_by_tokens",
        "_overlap",
        "_prompt_cache",
        "_resumption",
        "_transcript",
        "_way",
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
        max_tokens = DEFAULT_TOKENS if body.max_tokens is None and not is_chat else body.max_tokens
        self._resumption = Resumption(
            call, fields, max_tokens=max_tokens, may_by_tokens=may_by_tokens, may_by_text=may_by_text
        )
        self.splices = 0
        """Number of times that another worker has continued the stream."""
        self._is_chat = is_chat
        self._asks_ids = asks_ids
        self._asks_usage = body.asks_usage
        self._may_by_tokens = may_by_tokens
        self._transcript = Transcript(keeps_text=may_by_text)
        self._prompt_cache = PromptCache()
        self._head: Head | None = None
        self._held: list[bytes] = []
        self._is_content_due = False  # content has come, but may be held
        self._has_begun = False  # the caller has seen an event
        self._has_content = False  # the caller has seen content
        self._has_reasoned = False
        self._is_finished = False
        self._is_done = False
        self._has_usage = False
        self._is_lost = False  # an event came that no worker can go on from
        self._is_opaque = False  # an event came that is too long to read
        # The current worker:
        self._way = Way.AS_ASKED
        self._kept_tokens = 0  # tokens of the answer that other workers generated
        self._is_other = False  # the caller saw events of another worker first
        self._is_proved = True  # it has confirmed the tokens that it goes on after
        self._is_stopped = False  # it has failed
        self._overlap: Overlap | None = None

    def observer(self, *, strip_usage: bool) -> ChunkObserver:
        """Return an observer for one worker's stream. The observer can hold an event with the token ids of a long
        prompt.
        """
        return ChunkObserver(strip_usage=strip_usage, max_held=MAX_HELD)

    def passed(self, events: bytes) -> bytes:
        """Return the part of *events* to send to the caller. It ends before an error or an abort.

        The events come from the stream observer that `observer` returns.

        Raises:
            ReplyBroken: if the worker continues after other tokens than it was given. Nothing of its answer was
                returned before.
        """
        if self._is_stopped:
            return b""
        if self._is_opaque or len(events) > MAX_HELD:
            self._is_opaque = self._is_lost = True
            return self._let_out(events)
        if events.count(b"\n\n") == 1 and events.endswith(b"\n\n"):
            return self._event(events)
        return b"".join([self._event(event) for event in events_in(events)])

    @property
    def call(self) -> Call:
        """Call to the first worker, which requests token ids."""
        return self._resumption.call

    def next_call(self) -> Call | None:
        """Return the call with which another worker can continue the stream, or None if no worker can. The state does
        not change. O(tokens).
        """
        return self._resumption.next_call(self._next_way(), self._transcript)

    def resumed(self, *, hit_share: float | None = None) -> None:
        """Record that the following events come from the worker that received the call `next_call`.

        The failed worker was predicted to have the fraction *hit_share* of the prompt in its cache, or None without a
        prediction.
        """
        way, transcript = self._next_way(), self._transcript
        assert way is not None, "no worker could continue the stream"
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
        """Return the events that end the stream if nothing but its end is missing. Otherwise, return None.

        Only the end is missing if the finish reason has arrived, or as many tokens as the limit allows.
        """
        if self._is_done:
            return b""
        head = self._head
        pieces: list[bytes] = []
        if head is None or self._is_lost:
            return None
        if not self._is_finished:
            if not self._has_content or not self._resumption.is_full(self._transcript):
                return None
            pieces.append(head.finish("length"))
        usage = self.usage(None)
        if self._asks_usage and not self._has_usage and usage is not None:
            pieces.append(head.event(choices=[], usage=usage_json(usage)))
        self._is_finished = self._is_done = True
        return b"".join([*pieces, b"data: [DONE]\n\n"])

    def usage(self, usage: Usage | None) -> Usage | None:
        """Return the usage of the whole answer so far. *usage* is the usage that the current worker reports.

        Return None if the usage is unknown, which is the case before the end of an answer without token ids.
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
        if transcript.has_ids:
            return Usage(prompt_tokens, transcript.tokens, cached)
        if usage is None:
            return None
        return Usage(prompt_tokens, self._kept_tokens + usage.completion_tokens, cached)

    @property
    def is_spliced(self) -> bool:
        """Whether the current worker continues another worker's answer. If so, its usage covers only a part of the
        answer.
        """
        return self._way is not Way.AS_ASKED

    def _next_way(self) -> Way | None:
        if self._is_finished or self._is_lost:
            return None
        return self._resumption.way(self._transcript, has_content=self._has_content, has_reasoned=self._has_reasoned)

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
            return self._let_out(event)  # not a chunk of OpenAI's API
        if self._head is None:
            self._head = Head(chunk.id, chunk.created, chunk.model, self._is_chat)
        if chunk.usage is not None and not self.is_spliced:
            self._note_cached(chunk.usage)
        if len(chunk.choices) != 1:
            self._is_lost = self._is_lost or bool(chunk.choices)
            self._has_usage = self._has_usage or chunk.usage is not None
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

    def _note_prompt(self, prompt: list[int] | None, choice: ChunkChoice) -> None:
        """Record the prompt token ids that the worker reports, before any part of its answer is returned."""
        if prompt:
            if self._way is not Way.TOKENS:
                self._transcript.begin(prompt)
            elif not self._is_proved and not self._transcript.follows(prompt):
                self._refuse()
            self._is_proved = True
        if not self._is_proved and self._resumption.max_tokens is None and not choice.only_names_role:
            self._refuse()

    def _note_cached(self, fields: UsageFields) -> None:
        cached = usage_from(fields).cached_tokens
        if cached is not None:
            self._prompt_cache.reported(cached)

    def _refuse(self) -> None:
        self._is_stopped = True
        raise ReplyBroken("The worker continued the stream from different tokens than the gateway sent")

    def _note(self, choice: ChunkChoice, content: str) -> None:
        self._is_lost = self._is_lost or choice.calls or choice.index != 0 or (choice.reasons and self._has_content)
        self._has_reasoned = self._has_reasoned or choice.reasons
        self._is_finished = self._is_finished or choice.finish_reason is not None
        self._transcript.add(choice.token_ids, content, says=bool(choice.content) or choice.reasons)
        self._is_content_due = self._is_content_due or bool(content)

    def _when_settled(self, choice: ChunkChoice, event: bytes) -> bytes:
        """Return the held events and *event*, or hold *event* if its tokens might have more text than it shows."""
        is_settled = choice.reasons or choice.finish_reason is not None or not choice.token_ids or self._is_lost
        if is_settled or _has_all_text(choice, is_chat=self._is_chat) or len(self._held) >= MAX_UNSETTLED:
            self._transcript.settle()
            if self._is_content_due and not self._has_content:
                self._has_content = True  # the answer cannot begin again
                self._resumption.forget_body()
            return self._let_out(event)
        self._held.append(event)
        return b""

    def _let_out(self, event: bytes) -> bytes:
        self._has_begun = True
        if not self._held:
            return event
        held = b"".join(self._held)
        self._held.clear()
        return held + event

    def _as_ours(self, chunk: Chunk, content: str, data: bytes, event: bytes) -> bytes:
        """Return *event* as it is sent to the caller, without token ids and with the fields of the first worker's
        events.
        """
        head = self._head
        if self._is_other and head is not None:
            return head.rewritten(data, content, self._whole_usage(chunk.usage), keeps_ids=self._asks_ids)
        return event if self._asks_ids or not self._may_by_tokens else without_ids(event)

    def _whole_usage(self, fields: UsageFields | None) -> Usage | None:
        """Return the usage of the whole answer in place of *fields*, or None if *fields* already covers the whole
        answer.
        """
        return None if fields is None or not self.is_spliced else self.usage(usage_from(fields))


def _has_all_text(choice: ChunkChoice, *, is_chat: bool) -> bool:
    """Return whether the event *choice* contains the full text of its token ids.

    Detokenizers hold back half a character and show nothing. vLLM's tool and reasoning parsers hold back the possible
    beginning of a tag, which may be the end of a token: for " <" they show only a blank at first. Tags begin with ASCII
    punctuation, and no token contains letters followed by punctuation.
    """
    content = choice.content
    if not is_chat or not content:
        return bool(content)
    if len(choice.token_ids or ()) > 1:
        content = content[-1]
    return _letter(content) is not None


_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_TRUE = Raw(b"true")


def _fields_of(raw: bytes, places: Places | None) -> dict[str, Raw]:
    if places is None:
        return _decode_fields(raw)
    return {name: Raw(raw[start:end]) for name, start, end in places}


_letter = re.compile(r"[^\x00-\x7f]|[0-9A-Za-z]").search
