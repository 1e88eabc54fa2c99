"""Inference for all endpoints: parse a request, apply a fault, submit the request, and write the engine's tokens.

1. An endpoint defines how a request is parsed and how an answer is formatted. All other steps are the same for every
   endpoint.
2. An error that vLLM detects before the answer begins gets an error status. A later error is an event in the stream.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol
from uuid import uuid4

from engine_model.blocks import BlockScope
from engine_model.engine import EngineEvent
from engine_model.request import EngineRequest
from simulator.bodies import GenerationRequest
from simulator.defects import NO_DEFECTS, Defects
from simulator.errors import ApiError, EngineDead
from simulator.exchange import ClientGone, HttpExchange, require_json
from simulator.exposition import Exposition
from simulator.faults import Fault, Faults
from simulator.journal import Journal, JournalEntry
from simulator.progress import Choice, Progress
from simulator.ranks import Ranks
from simulator.realtime import Generation, GenerationAborted
from simulator.replies import ReplyShape, usage_json
from simulator.roles import Half, Role, unless_gone
from simulator.sleep import EngineSlept, Sleep
from simulator.sse import Event, Json, Spelling
from simulator.stream import EventStream
from simulator.tokens import TokenSequence, block_hashes


@dataclass(frozen=True, slots=True)
class Incoming:
    """Inference request as an endpoint reads it."""

    body: bytes
    content_type: str
    base_id: str
    """Base of the ids of the request and its answer: the caller's X-Request-Id, or a random value."""
    created: int
    """Creation time of the request in Unix seconds."""

    def json_body(self) -> bytes:
        """Return the request body as JSON. Raises `ApiError` if the media type is not JSON."""
        require_json(self.content_type)
        return self.body


class Endpoint(Protocol):
    """Interface of an inference endpoint."""

    def read(self, incoming: Incoming) -> tuple[GenerationRequest, ReplyShape]:
        """Return the parsed request and the format of its answer. Raises `ApiError` if the request is invalid."""
        ...


class CutByFault(Exception):
    """Error: an injected fault has closed the client's connection."""


class GenerationService:
    """Service that answers inference requests with the engines of *ranks*. Clock *wall* is monotonic, *unix* is not."""

    def __init__(
        self,
        *,
        model: str,
        block_size: int,
        ranks: Ranks,
        faults: Faults,
        sleep: Sleep,
        journal: Journal,
        exposition: Exposition,
        unix: Callable[[], float],
        wall: Callable[[], float] = time.monotonic,
        stream_interval: int = 1,
        role: Role | None = None,
        defects: Defects = NO_DEFECTS,
    ) -> None:
        """Create the service. *role* is that of a prefill or decode worker, or None if the worker does both."""
        self._model = model
        self._block_size = block_size
        self._ranks = ranks
        self._faults = faults
        self._sleep = sleep
        self._journal = journal
        self._exposition = exposition
        self._unix = unix
        self._wall = wall
        self._stream_interval = stream_interval
        self._role = role
        self._defects = defects
        self._serial = count(1)
        self._idle = asyncio.Event()
        self._idle.set()
        self.in_flight = 0
        self.spelling = Spelling()
        """Formatting of the streams that will begin from now on."""

    async def wait_idle(self) -> None:
        """Wait until no inference request is running."""
        await self._idle.wait()

    async def serve(self, exchange: HttpExchange, endpoint: Endpoint) -> None:
        """Answer one inference request. Raises `ApiError` only before the answer has begun."""
        entry = JournalEntry(path=exchange.path, headers=exchange.headers, at=self._unix())
        self._journal.add(entry)
        self.in_flight += 1
        self._idle.clear()
        try:
            await self._answer(exchange, endpoint, entry)
            entry.state = "finished"
        except ApiError as error:
            entry.state = "rejected" if entry.fault is None and not isinstance(error, EngineDead) else "failed"
            if not exchange.has_begun:
                raise
        except CutByFault:
            entry.state = "failed"
        except (ClientGone, GenerationAborted):
            entry.state = "aborted"
        finally:
            entry.ended_at = self._unix()
            self.in_flight -= 1
            if not self.in_flight:
                self._idle.set()

    async def _answer(self, exchange: HttpExchange, endpoint: Endpoint, entry: JournalEntry) -> None:
        arrived = self._wall()
        entry.body = await exchange.body()
        base_id = exchange.header(b"x-request-id") or uuid4().hex
        request, shape = endpoint.read(Incoming(entry.body, exchange.content_type, base_id, int(entry.at)))
        half = None if self._role is None else self._role.half(entry.body, base_id)
        request = request if half is None else half.shaped(request)
        entry.id = shape.id
        entry.prompt_tokens = sum(len(prompt) for prompt in request.prompts)
        entry.prompt_digest = TokenSequence(b"".join(prompt.packed for prompt in request.prompts)).digest()
        fault = self._faults.take()
        if fault.mode != "none":
            entry.fault = fault.mode
        await _meet(fault, exchange, streams=request.streams)

        # Two requests may carry one X-Request-Id, the second as a retry; the engine's ids are distinct.
        progress = Progress(request, f"{entry.id}-{next(self._serial)}", defects=self._defects)
        stream = EventStream(
            exchange,
            self.spelling,
            drip_bytes=fault.drip_bytes if fault.mode == "drip" else None,
            is_buffered=self._defects.buffer_streams,
        )
        writer = _Writer(exchange, shape, progress, fault, stream, interval=self._stream_interval)
        try:
            await self._generate(exchange, progress, writer, arrived, half)
        except ApiError as error:
            if exchange.has_begun:
                await writer.fail(error)
            raise
        finally:
            if half is not None:
                half.abandon()
            entry.cached_tokens = progress.cached_tokens
            for choice in progress.choices.values():
                self._exposition.finished(choice.finish_reason or "abort")

    async def _generate(
        self, exchange: HttpExchange, progress: Progress, writer: "_Writer", arrived: float, half: Half | None
    ) -> None:
        if exchange.connection.is_lost:
            raise ClientGone
        if writer.fault.mode == "shutting_down":
            await writer.begin()
            await writer.abort()
            return
        if self._sleep.is_asleep:
            await writer.begin()
            raise ApiError(503, "The engine is sleeping; wake it up with POST /wake_up.")
        requests = self._engine_requests(progress)
        if half is not None:
            await unless_gone(exchange.connection, half.before(requests))
        generation = self._ranks.engine_for(exchange).submit(requests)
        exchange.connection.when_lost = generation.abort
        try:
            await self._relay(generation, writer, arrived)
            if half is not None:
                writer.blocks = await unless_gone(exchange.connection, half.after())
            await writer.end()
        except EngineSlept:
            await writer.abort()
        finally:
            exchange.connection.when_lost = None
            generation.abort()

    def _engine_requests(self, progress: Progress) -> list[EngineRequest]:
        scope = BlockScope(progress.request.adapter, progress.request.cache_salt or None)
        seed = (str(self._defects.hash_seed),) if self._defects.hash_seed else ()
        salted = (*seed, self._model, scope.adapter or "", scope.salt or "")
        requests = []
        for request_id, choice in progress.choices.items():
            tokens = choice.prompt + choice.answer.tokens
            caches = self._defects.enable_prefix_caching
            hashes = block_hashes(tokens, block_size=self._block_size, scope=salted) if caches else []
            requests.append(
                EngineRequest(request_id, len(choice.prompt), len(choice.answer.tokens), hashes, tokens.ids, scope)
            )
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


async def _meet(fault: Fault, exchange: HttpExchange, *, streams: bool) -> None:
    """Apply *fault* to a request whose generation has not begun."""
    if fault.mode == "refuse":
        exchange.connection.reset()
    if fault.mode in ("refuse", "hang"):
        await exchange.connection.wait_lost()
        raise CutByFault
    if fault.mode == "engine_dead":
        raise EngineDead
    if fault.mode == "status" or (fault.mode == "error_event" and not streams):
        raise _ordered(fault)
    is_silent = fault.mode == "silent" and (fault.strikes_after == 0 or not streams)
    if is_silent and await exchange.connection.is_lost_within(fault.seconds):
        raise ClientGone


def _strikes_after(fault: Fault, *, streams: bool) -> int | None:
    """Return the number of output tokens before *fault* takes effect, or None if it does not affect the output."""
    if fault.mode == "abort_mid_stream" or (fault.mode == "error_event" and streams):
        return fault.strikes_after
    if fault.mode == "silent" and streams:
        return fault.strikes_after or None
    return None


def _ordered(fault: Fault) -> ApiError:
    return ApiError(fault.status, "this error was set at /control/faults")


class _Writer:
    """Writer of engine events as one HTTP answer, streamed or whole, with *fault* at its position in the output."""

    def __init__(
        self,
        exchange: HttpExchange,
        shape: ReplyShape,
        progress: Progress,
        fault: Fault,
        stream: EventStream,
        *,
        interval: int,
    ) -> None:
        self.fault = fault
        self.blocks: Json | None = None
        """Description of the cache blocks held for another worker, which is part of answers that are not streamed."""
        self._exchange = exchange
        self._shape = shape
        self._progress = progress
        self._streams = progress.request.streams
        self._stream = stream
        self._interval = interval
        self._strikes_after = _strikes_after(fault, streams=self._streams)

    async def begin(self) -> None:
        if self._streams:
            await self._stream.start()
        if self._strikes_after == 0:
            await self._strike()
        if self._streams:
            await self._stream.write(self._shape.begin())

    async def write(self, events: Sequence[EngineEvent]) -> None:
        out: list[Event] = []
        for event in events:
            choice = self._progress.note(event)
            if choice is None:
                continue
            if self._streams and choice.is_due(self._interval):
                out += self._events(choice)
            if self._strikes_after is not None and self._progress.generated_tokens >= self._strikes_after:
                await self._flush(out)
                await self._strike()
                out = []
        await self._flush(out)

    async def end(self) -> None:
        choices, usage = self._progress.whole(), self._progress.usage()
        if self._streams:
            events = self._shape.closing(choices, usage, include_usage=self._progress.request.include_usage)
            await self._stream.end(events)
        else:
            body = self._shape.body(choices, usage)
            await self._exchange.reply_json(body if self.blocks is None else body | {"kv_transfer_params": self.blocks})

    async def abort(self) -> None:
        """End all incomplete choices of the answer with the finish_reason ``abort``."""
        for choice in self._progress.abort():
            if self._streams:
                token = self._progress.untold(choice)
                events = self._shape.opening(token, None) if choice.reported == 0 else []
                await self._stream.write(events + self._shape.token(token, None))
        await self.end()

    async def fail(self, error: ApiError) -> None:
        """End a stream of events with *error* as its last event."""
        await self._stream.end(self._shape.failure(error, self._exchange.event_error(error)))

    def _events(self, choice: Choice) -> list[Event]:
        token = self._progress.untold(choice)
        opening = self._shape.opening(token, self._usage_so_far(choice, 0)) if choice.reported == 0 else []
        choice.reported = choice.sent
        return opening + self._shape.token(token, self._usage_so_far(choice, choice.sent))

    def _usage_so_far(self, choice: Choice, sent: int) -> Json | None:
        """Return the token usage of a single choice, as vLLM counts it within a stream."""
        if not self._progress.request.continuous_usage:
            return None
        return usage_json(prompt_tokens=len(choice.prompt), completion_tokens=sent)

    async def _flush(self, out: list[Event]) -> None:
        if out:
            await self._stream.write(out)

    async def _strike(self) -> None:
        """Apply the injected fault. All faults except silence end the answer."""
        self._strikes_after = None
        if self.fault.mode == "error_event":
            raise _ordered(self.fault)
        if self.fault.mode == "silent":
            if await self._exchange.connection.is_lost_within(self.fault.seconds):
                raise ClientGone
            return
        await self._exchange.connection.abort()
        await self._exchange.connection.wait_lost()
        raise CutByFault
