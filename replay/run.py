"""One policy before one workload, in virtual time."""

import heapq
import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from engine_model.blocks import BlockPool
from engine_model.engine import EngineEvent, Finished, FirstToken
from engine_model.host_tier import HostTier
from engine_model.request import EngineRequest
from engine_model.virtual import VirtualFleet
from replay.entrant import Entrant
from replay.event_line import BlocksRemoved, BlocksStored, EventLine, HostRemoved, HostStored, WorkerSink
from replay.host_events import HostEvents
from replay.policy import Ask, Setup, Usage
from replay.setting import Setting
from replay.trace import Recorded, Trace
from replay.workload import Workload, workload_of


@dataclass(frozen=True, slots=True)
class Answer:
    """A request's end. Its place in the order of arrivals decides whether it counts."""

    arrival: int
    worker: int
    ttft_s: float
    waited_s: float
    """The part of `ttft_s` in which the router held it."""
    prompt_tokens: int
    cached_tokens: int
    begins_session: bool = False
    """It is the first of a session of a closed loop."""
    arrived_at: float = math.nan
    ended_at: float = math.nan
    """Time of its last token."""
    output_tokens: int = 0
    number: int = -1
    """Number of the request in the trace."""


@dataclass(slots=True)
class _Asked:
    """A request under way."""

    recorded: Recorded
    ask: Ask
    arrival: int
    begins_session: bool
    worker: int = -1
    sent_at: float = math.nan
    ttft_s: float = math.nan
    cached_tokens: int = 0


class Run:
    """*entrant* before *workload*; without one, before that of *trace* in *setting*."""

    def __init__(
        self, trace: Trace, setting: Setting, entrant: Entrant, *, seed: int, workload: Workload | None = None
    ) -> None:
        workers, blocks = entrant.workers(setting), entrant.blocks(setting)
        self._workload = workload_of(trace, setting, seed) if workload is None else workload
        self._line = EventLine(workers, random.Random(seed), lag_s=setting.event_lag_s, loss=setting.event_loss)
        pools = []
        self._hosts: list[HostTier | None] = []
        self._pulled_from: dict[int, int] = {}
        for worker in range(workers):
            sink = self._sink(worker)
            host = entrant.host_tier(setting, sink)
            self._hosts.append(host)
            pools.append(BlockPool(blocks, trace.block_tokens, sink=sink, host=host))
        self._engines = VirtualFleet(
            {str(worker): entrant.engine(setting, pool, worker) for worker, pool in enumerate(pools)}
        )
        believed = entrant.believed_tokens_per_s(setting)
        self._host_events = HostEvents()
        self._policy = entrant.policy(
            Setup(
                workers,
                blocks,
                trace.block_tokens,
                believed,
                random.Random(seed),
                load_price=setting.load_price,
                pulls=setting.pulls,
                host_blocks=setting.host_blocks,
                pulled_from=self._pulled_from,
                host_events=self._host_events,
            )
        )
        self._now = 0.0
        self._serial = itertools.count()
        self._arrivals: list[tuple[float, int, Recorded]] = []
        self._begun: set[str] = set()
        self._asked: dict[int, _Asked] = {}
        self._answers: list[Answer] = []

    def answers(self) -> list[Answer]:
        """All answers, in the order in which they ended. To be called once."""
        for at, recorded in self._workload.begin():
            self._expect(at, recorded)
        while (now := self._next_at()) < math.inf:
            self._now = now
            events = self._engines.advance(now)
            self._hear_blocks()
            for _, event in events:
                self._hear(event)
            while self._arrivals and self._arrivals[0][0] <= now:
                self._ask(heapq.heappop(self._arrivals)[2])
            self._send(self._policy.poll(now))
        return self._answers

    def _sink(self, worker: int) -> WorkerSink:
        return WorkerSink(lambda event: self._line.tell(worker, event, self._now))

    def _next_at(self) -> float:
        """Return when something happens next: in an engine, on the line, in the policy, or outside."""
        times = [self._engines.next_event_at(), self._line.next_at(), self._policy.next_poll_at(self._now)]
        if self._arrivals:
            times.append(self._arrivals[0][0])
        return min([time for time in times if time is not None], default=math.inf)

    def _expect(self, at: float, recorded: Recorded) -> None:
        heapq.heappush(self._arrivals, (at, next(self._serial), recorded))

    def _begin(self, ask: Ask, recorded: Recorded) -> None:
        """Note the line *recorded* of a batch, which the policy has submitted itself as *ask*."""
        self._asked[recorded.number] = _Asked(recorded, ask, len(self._asked), begins_session=False)

    def _ask(self, recorded: Recorded) -> None:
        ask = Ask(recorded.number, recorded.session, recorded.prompt_tokens, recorded.blocks, self._now)
        begins_session = recorded.session is not None and recorded.session not in self._begun
        if recorded.session is not None:
            self._begun.add(recorded.session)
        self._asked[recorded.number] = _Asked(recorded, ask, len(self._asked), begins_session)
        self._policy.submit(ask, self._now)

    def _send(self, released: Sequence[tuple[Ask, int]]) -> None:
        for ask, worker in released:
            asked = self._asked[ask.number]
            assert asked.worker == -1, "a request is released once"
            asked.worker, asked.sent_at = worker, self._now
            recorded = asked.recorded
            self._engines.submit(
                str(worker),
                EngineRequest(
                    str(recorded.number),
                    recorded.prompt_tokens,
                    recorded.output_tokens,
                    recorded.blocks + recorded.answer_blocks,
                    peer=self._peer(ask.number),
                ),
                self._now,
            )

    def _peer(self, number: int) -> HostTier | None:
        """Return the host tier from which the router lets a request pull, or None."""
        source = self._pulled_from.pop(number, None)
        return None if source is None else self._hosts[source]

    def _hear_blocks(self) -> None:
        for worker, event in self._line.due(self._now):
            match event:
                case BlocksStored(blocks=blocks, parent=parent):
                    self._policy.stored(worker, blocks, parent, self._now)
                case BlocksRemoved(blocks=blocks):
                    self._policy.removed(worker, blocks, self._now)
                case HostStored(blocks=blocks):
                    self._host_events.stored(worker, blocks, self._now)
                case HostRemoved(blocks=blocks):
                    self._host_events.removed(worker, blocks, self._now)

    def _hear(self, event: EngineEvent) -> None:
        asked = self._asked[int(event.request_id)]
        match event:
            case FirstToken(at=at, cached_tokens=cached_tokens):
                asked.ttft_s, asked.cached_tokens = at - asked.ask.arrival, cached_tokens
                self._policy.first_token(asked.ask, at)
            case Finished(at=at):
                self._finish(asked, at)

    def _finish(self, asked: _Asked, now: float) -> None:
        recorded = asked.recorded
        following = self._workload.answered(recorded, now)
        goes_on = recorded.spawns is not None or any(each.session == recorded.session for _, each in following)
        usage = Usage(asked.cached_tokens, recorded.output_tokens, recorded.session is not None and not goes_on)
        self._policy.finished(asked.ask, usage, now)
        self._answers.append(
            Answer(
                asked.arrival,
                asked.worker,
                asked.ttft_s,
                asked.sent_at - asked.ask.arrival,
                recorded.prompt_tokens,
                asked.cached_tokens,
                asked.begins_session,
                asked.ask.arrival,
                now,
                recorded.output_tokens,
                recorded.number,
            )
        )
        for arrival in following:
            self._expect(*arrival)
