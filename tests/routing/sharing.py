"""Teams before simulated engines, in virtual time: who asks how much, and how long each waits for its first tokens."""

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cache_index import WorkerId
from engine_model.blocks import BlockPool
from engine_model.engine import Engine, Finished, FirstToken
from engine_model.fifo import FifoEngine
from engine_model.request import EngineRequest
from engine_model.virtual import VirtualFleet
from routing.booking import Booking, Ending, Outcome
from routing.dispatcher import Dispatch, Dispatcher, Refusal
from routing.fleet import Fleet
from routing.request import NORMAL, Request
from tests.routing.examples import HASHER, an_index

BLOCK_TOKENS = 16
BYTES_PER_TOKEN = 4
REPORT_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Ask:
    """A kind of request of one team; its prompt has nothing in common with any other."""

    team: str
    prompt_tokens: int = 4096
    output_tokens: int = 20
    weight: float = 1.0
    priority: int = NORMAL
    streams: bool = True
    deadline_s: float | None = None
    spill_in_s: float | None = None
    strategy: str | None = None
    session: str | None = None


@dataclass(slots=True)
class Answered:
    ask: Ask
    since: float
    first_token_at: float = 0.0

    @property
    def ttft_s(self) -> float:
        return self.first_token_at - self.since


class Sharing:
    """*workers* engines with no more than their own rates, before which requests wait as *make* has it."""

    def __init__(
        self,
        make: Callable[[Fleet], Dispatcher],
        *,
        workers: int = 3,
        engine: Callable[[BlockPool], Engine] = FifoEngine,
        reports: bool = True,
        believed_tokens_per_s: float = 10_000.0,
    ) -> None:
        names = [WorkerId(str(number)) for number in range(workers)]
        self.engines = VirtualFleet({name: engine(BlockPool(20_000, BLOCK_TOKENS)) for name in names})
        self.fleet = Fleet(
            an_index(), block_bytes=BLOCK_TOKENS * BYTES_PER_TOKEN, prefill_tokens_per_s=believed_tokens_per_s
        )
        self.fleet.set_workers(names, 0.0)
        self.dispatcher = make(self.fleet)
        self.answered: dict[str, list[Answered]] = defaultdict(list)
        self.refused: list[Refusal] = []
        self.sent: Counter[WorkerId] = Counter()
        """Requests that each worker has got."""
        self.most_queued = 0
        """Most requests in the engines' queues at any time."""
        self._reports = reports
        self._serial = itertools.count()
        self._arrivals: list[tuple[float, int, Ask]] = []
        self._floods: set[int] = set()
        self._asked: dict[int, tuple[int, Answered]] = {}
        """Open requests by their identity."""
        self._running: dict[str, tuple[Request, Booking, Answered, int]] = {}

    def at(self, times: Sequence[float], ask: Ask) -> None:
        """One request at each of *times*."""
        for time in times:
            heapq.heappush(self._arrivals, (time, next(self._serial), ask))

    def flood(self, clients: int, ask: Ask, *, begin: float = 0.0) -> None:
        """Each of *clients* asks again as soon as it has its answer, for ever."""
        for _ in range(clients):
            serial = next(self._serial)
            self._floods.add(serial)
            heapq.heappush(self._arrivals, (begin, serial, ask))

    def ttfts_s(self, team: str) -> list[float]:
        """The times are in ascending order."""
        return sorted(each.ttft_s for each in self.answered[team])

    def work(self, team: str) -> int:
        """Tokens of prompts that were computed for *team*."""
        return sum(each.ask.prompt_tokens for each in self.answered[team])

    def run(self, until: float) -> None:
        report_at = REPORT_EVERY_S
        while (now := self._next_at(report_at)) <= until:
            for _, event in self.engines.advance(now):
                if isinstance(event, FirstToken):
                    self._first_token(event.request_id, now)
                elif isinstance(event, Finished):
                    self._finish(event.request_id, now)
            while self._arrivals and self._arrivals[0][0] <= now:
                _, serial, ask = heapq.heappop(self._arrivals)
                self._ask(ask, serial, now)
            if now >= report_at:
                report_at = now + REPORT_EVERY_S
                self._report(now)
            for dispatch in self.dispatcher.poll(now):
                self._send(dispatch, now)
            self.refused += self.dispatcher.refused()

    def _next_at(self, report_at: float) -> float:
        last = getattr(self, "_last", 0.0)
        times = [self.engines.next_event_at(), self.dispatcher.next_poll_at(last), report_at]
        if self._arrivals:
            times.append(self._arrivals[0][0])
        self._last = max(last, min(time for time in times if time is not None))
        return self._last

    def _ask(self, ask: Ask, serial: int, now: float) -> None:
        text = f"{next(self._serial):016d}" * (ask.prompt_tokens * BYTES_PER_TOKEN // 16)
        request = Request(
            HASHER.prefix(text.encode()),
            len(text),
            float(ask.prompt_tokens),
            float(ask.output_tokens),
            session=ask.session,
            streams=ask.streams,
            strategy=ask.strategy,
            team=ask.team,
            weight=ask.weight,
            priority=ask.priority,
            deadline_s=ask.deadline_s,
            spill_in_s=ask.spill_in_s,
        )
        self._asked[id(request)] = (serial, Answered(ask, now))
        self.dispatcher.submit(request, now)

    def _send(self, dispatch: Dispatch, now: float) -> None:
        serial, answered = self._asked.pop(id(dispatch.request))
        assert dispatch.booking is not None
        name = str(next(self._serial))
        self._running[name] = (dispatch.request, dispatch.booking, answered, serial)
        ask = answered.ask
        blocks = tuple(f"{name}-{number}" for number in range(ask.prompt_tokens // BLOCK_TOKENS))
        worker = dispatch.booking.worker
        self.sent[worker] += 1
        self.engines.submit(worker, EngineRequest(name, ask.prompt_tokens, ask.output_tokens, blocks), now)
        self.most_queued = max(self.most_queued, self.engines.load(worker, now).waiting)

    def _first_token(self, name: str, now: float) -> None:
        _, booking, answered, _ = self._running[name]
        answered.first_token_at = now
        self.answered[answered.ask.team].append(answered)
        self.fleet.bookings.first_byte(booking, now)

    def _finish(self, name: str, now: float) -> None:
        _, booking, answered, serial = self._running.pop(name)
        ask = answered.ask
        self.fleet.bookings.release(booking, Outcome(Ending.ANSWERED, ask.prompt_tokens, 0, ask.output_tokens), now)
        if serial in self._floods:
            heapq.heappush(self._arrivals, (now, serial, ask))

    def _report(self, now: float) -> None:
        if self._reports:
            for worker in self.engines.workers:
                self.fleet.engine_queue_reported(WorkerId(worker), self.engines.load(worker, now).waiting, now)
