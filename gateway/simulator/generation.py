"""The completion endpoints: understand, meet a fault or not, submit, write the answer as the engine gives it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol
from uuid import uuid4

from gateway.simulator.answers import Answer, answer
from gateway.simulator.bodies import GenerationRequest
from gateway.simulator.engine import EngineEvent, FirstToken, Token
from gateway.simulator.errors import ApiError
from gateway.simulator.exchange import ClientGone, Exchange
from gateway.simulator.exposition import Exposition
from gateway.simulator.faults import Fault, Faults
from gateway.simulator.journal import Journal, JournalEntry
from gateway.simulator.realtime import Generation, GenerationAborted, RealtimeEngine
from gateway.simulator.replies import DONE, ChoiceText, Json, ReplyShape, sse, usage_json
from gateway.simulator.request import EngineRequest
from gateway.simulator.tokens import TokenSequence, block_hashes, piece_text


class Endpoint(Protocol):
    """What tells chat and completions apart."""

    @property
    def id_prefix(self) -> str: ...

    def read(self, body: bytes) -> GenerationRequest:
        """Raises `ApiError`."""
        ...

    def shape(self, reply_id: str, created: int, model: str) -> ReplyShape: ...


class CutByFault(Exception):
    """The connection is gone because a fault wanted it so."""


@dataclass(slots=True, eq=False)
class _Choice:
    """One answer and how much of it is out."""

    index: int
    prompt: TokenSequence
    answer: Answer
    pieces: list[bytes]
    sent: int = 0
    cached_tokens: int = 0

    @property
    def is_complete(self) -> bool:
        return self.sent == len(self.pieces)


class _Progress:
    """The choices of one request while the engine works on them."""

    def __init__(self, request: GenerationRequest, reply_id: str) -> None:
        self.request = request
        self.choices: dict[str, _Choice] = {}
        for prompt, max_tokens in zip(request.prompts, request.max_tokens, strict=True):
            for number in range(request.choices_per_prompt):
                made = answer(
                    prompt,
                    max_tokens=max_tokens,
                    min_tokens=request.min_tokens,
                    ignore_eos=request.ignore_eos,
                    choice=number,
                )
                index = len(self.choices)
                self.choices[f"{reply_id}-{index}"] = _Choice(index, prompt, made, made.tokens.pieces())

    @property
    def prompt_tokens(self) -> int:
        return sum(len(prompt) for prompt in self.request.prompts)

    @property
    def generated_tokens(self) -> int:
        return sum(choice.sent for choice in self.choices.values())

    @property
    def cached_tokens(self) -> int:
        """Of each prompt once, as its first choice found them."""
        return sum(
            choice.cached_tokens
            for choice in self.choices.values()
            if choice.index % self.request.choices_per_prompt == 0
        )

    def usage(self) -> Json:
        return usage_json(
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.generated_tokens,
            cached_tokens=self.cached_tokens,
        )

    def note(self, event: EngineEvent) -> _Choice | None:
        """The choice that *event* gave a token, which counts as sent; ``None`` if it gave none."""
        if not isinstance(event, FirstToken | Token):
            return None
        choice = self.choices[event.request_id]
        if isinstance(event, FirstToken):
            choice.cached_tokens = event.cached_tokens
        choice.sent += 1
        return choice

    def token(self, choice: _Choice) -> ChoiceText:
        """The token of *choice* that was noted last."""
        at = choice.sent - 1
        wants_ids = self.request.return_token_ids
        return ChoiceText(
            index=choice.index,
            text=piece_text(choice.pieces[at]),
            token_ids=choice.answer.tokens.ids[at : at + 1] if wants_ids else None,
            prompt_token_ids=choice.prompt.ids if wants_ids and at == 0 else None,
            finish_reason=choice.answer.finish_reason if choice.is_complete else None,
        )

    def whole(self) -> list[ChoiceText]:
        wants_ids = self.request.return_token_ids
        return [
            ChoiceText(
                index=choice.index,
                text=choice.answer.tokens.text(),
                token_ids=choice.answer.tokens.ids if wants_ids else None,
                prompt_token_ids=choice.prompt.ids if wants_ids else None,
                finish_reason=choice.answer.finish_reason,
            )
            for choice in self.choices.values()
        ]


class GenerationService:
    """Answers completion requests with one engine. *wall* gives monotonic seconds, *unix* the seconds since 1970."""

    def __init__(
        self,
        *,
        model: str,
        block_size: int,
        engine: RealtimeEngine,
        faults: Faults,
        journal: Journal,
        exposition: Exposition,
        unix: Callable[[], float],
        wall: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = model
        self._block_size = block_size
        self._engine = engine
        self._faults = faults
        self._journal = journal
        self._exposition = exposition
        self._unix = unix
        self._wall = wall
        self._serial = count(1)
        self.in_flight = 0

    async def serve(self, exchange: Exchange, endpoint: Endpoint) -> None:
        """Raises `ApiError` before the answer has begun."""
        entry = JournalEntry(path=exchange.path, headers=exchange.headers, at=self._unix())
        self._journal.add(entry)
        self.in_flight += 1
        try:
            await self._answer(exchange, endpoint, entry)
            entry.state = "finished"
        except ApiError:
            entry.state = "rejected" if entry.fault is None else "failed"
            raise
        except CutByFault:
            entry.state = "failed"
        except (ClientGone, GenerationAborted):
            entry.state = "aborted"
        finally:
            entry.ended_at = self._unix()
            self.in_flight -= 1

    async def _answer(self, exchange: Exchange, endpoint: Endpoint, entry: JournalEntry) -> None:
        arrived = self._wall()
        entry.body = await exchange.body()
        exchange.require_json()
        request = endpoint.read(entry.body)
        base = exchange.header(b"x-request-id") or uuid4().hex
        entry.id = f"{endpoint.id_prefix}-{base}"
        entry.prompt_tokens = sum(len(prompt) for prompt in request.prompts)
        entry.prompt_digest = TokenSequence(b"".join(prompt.packed for prompt in request.prompts)).digest()
        fault = self._faults.take()
        await self._meet(fault, exchange, entry)

        # Two requests may carry one X-Request-Id, the second as a retry; the engine's ids are told apart.
        progress = _Progress(request, f"{entry.id}-{next(self._serial)}")
        shape = endpoint.shape(entry.id, int(entry.at), self._model)
        if exchange.connection.is_lost:
            raise ClientGone
        generation = self._engine.submit(self._engine_requests(progress))
        exchange.connection.when_lost = generation.abort
        writer = _Writer(exchange, shape, progress, fault)
        try:
            await self._relay(generation, writer, arrived)
        finally:
            exchange.connection.when_lost = None
            generation.abort()
            entry.cached_tokens = progress.cached_tokens
            for choice in progress.choices.values():
                self._exposition.finished(choice.answer.finish_reason if choice.is_complete else "abort")

    async def _meet(self, fault: Fault, exchange: Exchange, entry: JournalEntry) -> None:
        """Suffer what *fault* does to a request that has not begun to run."""
        if fault.mode != "none":
            entry.fault = fault.mode
        if fault.mode == "refuse":
            exchange.connection.reset()
            await exchange.connection.wait_lost()
            raise CutByFault
        if fault.mode == "hang":
            await exchange.connection.wait_lost()
            raise CutByFault
        if fault.mode == "status":
            raise ApiError(fault.status, "this answer was ordered at /control/faults")

    def _engine_requests(self, progress: _Progress) -> list[EngineRequest]:
        scope = (self._model, progress.request.cache_salt or "")
        requests = []
        for request_id, choice in progress.choices.items():
            tokens = choice.prompt + choice.answer.tokens
            hashes = block_hashes(tokens, block_size=self._block_size, scope=scope)
            requests.append(EngineRequest(request_id, len(choice.prompt), len(choice.pieces), hashes, tokens.ids))
        return requests

    async def _relay(self, generation: Generation, writer: "_Writer", arrived: float) -> None:
        await writer.begin()
        has_begun = False
        while not generation.is_finished:
            events = await generation.events()
            if not has_begun:
                has_begun = True
                self._exposition.first_token(self._wall() - arrived)
            await writer.write(events)
        await writer.end()


class _Writer:
    """Writes engine events as one HTTP answer, streamed or whole, and breaks it off where a fault says so."""

    def __init__(self, exchange: Exchange, shape: ReplyShape, progress: _Progress, fault: Fault) -> None:
        self._exchange = exchange
        self._shape = shape
        self._progress = progress
        self._streams = progress.request.streams
        self._cut_after = fault.after_tokens if fault.mode == "abort_mid_stream" else None

    async def begin(self) -> None:
        if self._streams:
            await self._exchange.start_stream()
        if self._cut_after == 0:
            await self._cut()

    async def write(self, events: Sequence[EngineEvent]) -> None:
        out: list[bytes] = []
        for event in events:
            choice = self._progress.note(event)
            if choice is None:
                continue
            if self._streams:
                out.extend(self._chunks(choice))
            if self._cut_after is not None and self._progress.generated_tokens >= self._cut_after:
                await self._flush(out)
                await self._cut()
        await self._flush(out)

    async def end(self) -> None:
        if not self._streams:
            body = self._shape.body(self._progress.whole(), self._progress.usage())
            await self._exchange.reply_json(body)
            return
        out = b""
        if self._progress.request.include_usage:
            out = sse(self._shape.usage_chunk(self._progress.usage()))
        await self._exchange.end_stream(out + DONE)

    def _chunks(self, choice: _Choice) -> list[bytes]:
        token = self._progress.token(choice)
        chunks = []
        if choice.sent == 1:
            opening = self._shape.opening_chunk(token, self._usage_so_far(choice, 0))
            if opening is not None:
                chunks.append(sse(opening))
        chunks.append(sse(self._shape.chunk(token, self._usage_so_far(choice, choice.sent))))
        return chunks

    def _usage_so_far(self, choice: _Choice, sent: int) -> Json | None:
        """Of this choice alone, as vLLM counts within a stream."""
        if not self._progress.request.continuous_usage:
            return None
        return usage_json(prompt_tokens=len(choice.prompt), completion_tokens=sent)

    async def _flush(self, out: list[bytes]) -> None:
        if out:
            await self._exchange.write(b"".join(out))

    async def _cut(self) -> None:
        await self._exchange.connection.abort()
        await self._exchange.connection.wait_lost()
        raise CutByFault
