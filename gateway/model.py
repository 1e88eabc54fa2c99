"""A model that is served: its workers, its strategy and its fallbacks."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from cache_index import CacheIndex, Hasher, WorkerId
from gateway.adapters.placement import Placement
from gateway.arrivals import Arrivals
from gateway.backends.backend import WorkerBackend
from gateway.bodies.bounds import may_be_tokenized
from gateway.body import Body
from gateway.cascade.cascade import Cascade
from gateway.cascade.need import Need
from gateway.continuation.continuation import Mode
from gateway.disaggregation.division import Division
from gateway.engine_metrics import Observation
from gateway.exact_prompts import ExactPrompt, ExactPrompts
from gateway.ledger.price import Price
from gateway.open_streams import OpenStreams
from gateway.quota.plan import Metered
from gateway.teams.access import Header
from gateway.teams.caller import Caller
from gateway.teams.team import Priority
from gateway.turnstile import Turnstile
from gateway.wishes import patience_s_in, short_name, strategy_in, wanted_s_in
from routing.fleet import Fleet
from routing.request import HIGH, LOW, NORMAL, Request
from routing.retry_budget import RetryBudget

SPILL_SHARE = 0.5
"""Of the time that a caller waits, after which it goes to a fallback: that needs time to answer, too."""

PRIORITIES: Final[dict[Priority, int]] = {"low": LOW, "normal": NORMAL, "high": HIGH}
"""As routing has them."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One worker's gauges."""

    worker: str
    values: Mapping[str, float]


@dataclass(slots=True)
class _Traffic:
    """The requests of one model, under whichever settings they began."""

    retry_budget: RetryBudget
    in_flight: int = 0
    arrivals: Arrivals = field(default_factory=Arrivals)
    streams: OpenStreams = field(default_factory=OpenStreams)


class Model:
    """One model as the settings have it: everything that a request for it needs, from beginning to end.

    Settings that change make another, which goes on from the *former*; requests end under the one that they began with.
    """

    def __init__(
        self,
        name: str,
        *,
        upstream_name: str,
        strategy: str,
        allows_strategy_header: bool = False,
        session_header: bytes,
        hasher: Hasher,
        exact_prompts: ExactPrompts | None = None,
        index: CacheIndex,
        fleet: Fleet,
        turnstile: Turnstile,
        workers: Mapping[WorkerId, WorkerBackend],
        cascade: Cascade | None = None,
        continuation: Mode = "off",
        context_tokens: int | None = None,
        spills_when_late: bool = True,
        retry_budget: RetryBudget | None = None,
        price: Price | None = None,
        gpu_hour_usd: float | None = None,
        max_output_tokens: int | None = None,
        allowed_engine_fields: frozenset[str] = frozenset(),
        allows_background: bool = False,
        answers_as_asked: bool = True,
        division: Division | None = None,
        former: "Model | None" = None,
    ) -> None:
        self.name = name
        self.upstream_name = upstream_name
        self.strategy = strategy
        self._allows_strategy_header = allows_strategy_header
        self.session_header = session_header
        self.fleet = fleet
        self.turnstile = turnstile
        self.workers = workers
        self.cascade = Cascade(name) if cascade is None else cascade
        self.continuation = continuation
        """Whether a stream whose worker dies goes on at another."""
        self.division = division
        """How its requests are divided; None: each is one worker's."""
        self.context_tokens = context_tokens
        """Longest prompt and output together that its workers take; None: not known."""
        self.allowed_engine_fields = allowed_engine_fields
        """Fields of an engine's own that callers may send, see `gateway.engine_fields`."""
        self.allows_background = allows_background
        """Teams may have responses generated in the background, where their tokens are not seen."""
        self.answers_as_asked = answers_as_asked
        """Answers name the model as the caller did; else as the worker does."""
        self.has_fleet = True
        """Workers may serve it, be they there or not; if not, nobody is waited for."""
        self.adapter: Placement | None = None
        """The LoRA adapter that it is; None: it is none. Set by whoever knows where those are."""
        self._spills_when_late = spills_when_late
        self._price = price or Price()
        self._gpu_hour_usd = gpu_hour_usd
        # A price that never changes is asked itself: limits ask it for every request.
        cost_usd = self._price.cost_usd if gpu_hour_usd is None else self._cost_usd
        longest = min(filter(None, (max_output_tokens, context_tokens)), default=None)
        self.metered = Metered(name, cost_usd, longest, self._most_usd if self.cascade else None)
        """As limits know it."""
        self._traffic = _Traffic(retry_budget or RetryBudget(1.0, 10.0))
        self._successor: Model | None = None
        self._leaving: tuple[WorkerBackend, ...] = ()
        self._observations: dict[WorkerId, Observation] = {}
        if former is not None:
            self._follow(former)
        self._hasher = hasher
        self.exact_prompts = exact_prompts
        self._plain_scope = upstream_name.encode() + b"\0"
        self._index = index

    @property
    def in_flight(self) -> int:
        """Requests being served, those that began under former settings too."""
        return self._traffic.in_flight

    @in_flight.setter
    def in_flight(self, value: int) -> None:
        self._traffic.in_flight = value

    @property
    def retry_budget(self) -> RetryBudget:
        """How many of its requests may be sent a second time."""
        return self._traffic.retry_budget

    @property
    def arrivals(self) -> Arrivals:
        """Where requests wait for a worker."""
        return self._traffic.arrivals

    @property
    def streams(self) -> OpenStreams:
        """Those that could go on elsewhere."""
        return self._traffic.streams

    @property
    def latest(self) -> "Model":
        """The same model as the settings have it at this moment: requests that last may need workers that are new."""
        model = self
        while model._successor is not None:  # of the same class
            model = model._successor
        return model

    def succeeded_by(self, model: "Model") -> None:
        """The settings have *model* in its place from now on."""
        self._successor = model

    @property
    def price(self) -> Price:
        """What its tokens cost at this moment."""
        if self._gpu_hour_usd is None:
            return self._price
        prefill_s, decode_s = self.fleet.token_times()
        return Price.per_gpu_hour(self._gpu_hour_usd, prefill_s_per_token=prefill_s, decode_s_per_token=decode_s)

    @property
    def follows(self) -> bool:
        """Whether it matters to it what engines tell of their caches."""
        return self.exact_prompts is not None

    async def exact_prompt(self, path: str, raw: bytes, body: Body) -> ExactPrompt | None:
        """The prompt of *raw*, which came to *path* and was read as *body*, by its exact tokens; None if unknown."""
        if self.exact_prompts is None or not body.reads_cache:
            return None
        if not may_be_tokenized(raw):
            self.exact_prompts.unknown["slow"] += 1
            return None
        return await self.exact_prompts.of(path, raw, body.cache_salt)

    def request(
        self,
        body: Body,
        header: Header,
        pinned: WorkerId | None,
        exact: ExactPrompt | None = None,
        caller: Caller | None = None,
    ) -> Request:
        """What routing is to know of *body*. A *pinned* one goes on from what only that worker keeps.

        *header* gives the caller's header of a name, *exact* what `exact_prompt` gave; *caller* is None where there are
        no teams.

        Raises:
            InvalidField: a header has a value that cannot be; *param* names it.
            Forbidden: the caller may not ask for that strategy.
        """
        prompt = body.prompt
        deadline_s = patience_s_in(header)
        fleet = self.fleet
        strategy = strategy_in(header) if self._allows_strategy_header else None
        if caller is not None and strategy is not None:
            caller.permits.check_strategy(strategy)
        return Request(
            prefix=self._hasher.prefix(prompt, self._scope(body)),
            prompt_bytes=body.prompt_bytes,
            prompt_tokens=body.prompt_bytes / fleet.bytes_per_token.ratio if exact is None else float(exact.tokens),
            output_tokens=fleet.output_length.expected(body.max_tokens),
            session=short_name(session) if (session := header(self.session_header) or body.session) else None,
            streams=body.streams,
            reads_cache=body.reads_cache,
            writes_cache=body.writes_cache,
            pinned=pinned,
            exact=() if exact is None else exact.prefixes,
            wanted_in_s=wanted_s_in(header),
            deadline_s=deadline_s,
            spill_in_s=self._spills_in_s(caller, deadline_s),
            team="" if caller is None else caller.team.name,
            weight=1.0 if caller is None else caller.weight,
            priority=NORMAL if caller is None else PRIORITIES[caller.priority],
            strategy=strategy,
        )

    def need(self, path: str, body: Body, request: Request, caller: Caller | None) -> Need | None:
        """What a request that came to *path* asks of fallbacks; None if none may answer it."""
        if not self.cascade or (caller is not None and not caller.may_fall_back):
            return None
        return Need(
            prompt_tokens=request.prompt_tokens,
            max_tokens=body.max_tokens,
            expected_output_tokens=request.output_tokens,
            team=request.team,
            path=path,
        )

    @property
    def effective_policy(self) -> str:
        """What the strategy comes to at this moment.

        ``kv_aware`` without any worker whose engine tells of its cache ranks as ``prefix_aware``; ``kv_aware_in_part``
        where that is so of some.
        """
        if self.strategy != "kv_aware":
            return self.strategy
        told = [worker.is_confirmed for worker in self.fleet if worker.is_ready and worker.role != "decode"]
        if not any(told):
            return "prefix_aware"
        return "kv_aware" if all(told) else "kv_aware_in_part"

    def why_not_ready(self) -> str | None:
        """None if somebody could answer a request."""
        return None if self.cascade else self.why_no_worker()

    def why_no_worker(self) -> str | None:
        """None if a worker could answer a request."""
        if any(worker.is_answering for worker in self.fleet):
            return None if self.division is None else self.division.why_nobody_computes()
        answering = [worker for worker in self.fleet if worker.role != "prefill"]
        workers = len(answering)
        if workers == 0:
            return "there are no workers yet"
        reasons = Counter(filter(None, (worker.why_not_ready for worker in answering)))
        if len(reasons) > 1:
            listed = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
            return f"none of {workers} workers is ready: {listed}"
        if "down" in reasons:
            return f"none of {workers} workers is up"
        return f"all of {workers} workers are {next(iter(reasons))}"

    def went_down(self, worker: WorkerId) -> None:
        """Let the requests that *worker* has not begun to answer go elsewhere, if there is an elsewhere.

        An engine that hangs, or a node that lost its power, closes no connection: without this they would wait for
        their timeout. What is being answered stays: an engine too busy for a health check may still be at it.
        """
        if self.why_not_ready() is None:
            for backend in (self.workers[worker], *self._leaving):
                if backend.id == worker:
                    backend.abandon_unanswered()

    def unreachable(self, worker: WorkerId) -> None:
        """A request found nobody at its address: all who share that are down until a health check finds somebody."""
        gone = self.workers.get(worker)
        if gone is not None:
            for other, backend in self.workers.items():
                if backend.url == gone.url:
                    self.fleet.set_up(other, up=False)
            self.turnstile.turn()

    def came_up(self) -> None:
        """Some worker is there again, or new."""
        self.arrivals.announce()
        self.turnstile.turn()

    def hand_over(self, worker: WorkerId) -> int:
        """Let streams on *worker* that can go on elsewhere do so, if there is an elsewhere; how many those are."""
        if not any(other.is_answering for other in self.fleet if other.id != worker):
            return 0
        return self.streams.hand_over(worker)

    def set_draining(self, worker: WorkerId, *, draining: bool) -> None:
        """Send *worker* no more requests, or send it some again; those that it has go on."""
        self.fleet.set_draining(worker, draining=draining)
        self.came_up()

    def observed(self, worker: WorkerId, observation: Observation) -> None:
        """Show *observation* among the gauges of *worker*, and let it correct what routing knows of its queue."""
        self._observations[worker] = observation
        waiting = observation.reading.waiting
        if waiting is not None:
            self.fleet.told(worker, waiting, observation.read_at)
            self.turnstile.turn()

    def readings(self, now: float) -> Iterator[Reading]:
        """Gauges of every worker at *now*."""
        for state in self.fleet:
            load = state.load(now)
            yield Reading(
                state.id,
                {
                    "up": float(state.is_up),
                    "asleep": float(state.is_asleep),
                    "draining": float(state.is_draining),
                    "breaker_open": float(state.breaker.is_open),
                    "in_flight": float(load.in_flight),
                    "backlog_seconds": load.backlog_s,
                    "prefill_tokens_per_second": state.prefill_tokens_per_s,
                    "index_blocks": float(self.held_blocks(state.id)),
                    "cache_told": float(state.is_trusted),
                    "hit_accuracy": state.accuracy.value,
                    "hit_alarm": float(state.accuracy.is_lying),
                    "connections": float(self.workers[state.id].connections_open),
                    **self._told(state.id, now),
                },
            )

    def held_blocks(self, worker: WorkerId) -> int:
        """Blocks that *worker* is believed to hold, of all models that it serves."""
        return self._index.held(worker)

    async def aclose(self) -> None:
        """Close the connections to the workers, and to the fallbacks that have some of their own."""
        for worker in (*self.workers.values(), *self._leaving):
            await worker.aclose()
        await self.cascade.aclose()
        if self.division is not None:
            await self.division.aclose()

    def _most_usd(self, prompt: float, cached: float, completion: float) -> float:
        """What it costs at whoever may answer, the dearest of them: until it is answered nobody knows who that is."""
        own = self.price.cost_usd(prompt, cached, completion)
        return max(own, *(each.price().cost_usd(prompt, cached, completion) for each in self.cascade.fallbacks))

    def _cost_usd(self, prompt: float, cached: float, completion: float) -> float:
        return self.price.cost_usd(prompt, cached, completion)

    def _follow(self, former: "Model") -> None:
        """Take over what is going on, and what is known of the workers that stay."""
        self._traffic = former._traffic  # noqa: SLF001  # of the same class
        told = former._observations  # noqa: SLF001
        self._observations = {worker: told[worker] for worker in self.workers if worker in told}
        staying = {id(backend) for backend in self.workers.values()}
        backends = (*former._leaving, *former.workers.values())  # noqa: SLF001
        self._leaving = tuple(b for b in backends if b.connections_open and id(b) not in staying)

    def _spills_in_s(self, caller: Caller | None, deadline_s: float | None) -> float | None:
        """After what wait a fallback had better answer; None: never because of it."""
        if not self.cascade or not self._spills_when_late or (caller is not None and not caller.may_fall_back):
            return None
        wanted_s = None if caller is None else caller.team.ttft_s
        deadline_s = None if deadline_s is None else SPILL_SHARE * deadline_s
        if wanted_s is None or deadline_s is None:
            return deadline_s if wanted_s is None else wanted_s
        return min(wanted_s, deadline_s)

    def _told(self, worker: WorkerId, now: float) -> dict[str, float]:
        """What its engine told of itself, as long as that is fresh, and how long ago it was."""
        observation = self._observations.get(worker)
        if observation is None:
            return {}
        gauges = {"reading_age_seconds": observation.age_s(now)}
        if observation.is_stale(now):
            return gauges
        reading = observation.reading
        told = {
            "engine_running": reading.running,
            "engine_waiting": reading.waiting,
            "engine_kv_usage": reading.kv_usage,
        }
        return gauges | {name: value for name, value in told.items() if value is not None}

    def _scope(self, body: Body) -> bytes:
        """Prompts share a cache only within it. An adapter is a model of its own here, as it is for vLLM's clients."""
        salt = body.cache_salt
        return self._plain_scope + salt.encode() if salt else self._plain_scope
