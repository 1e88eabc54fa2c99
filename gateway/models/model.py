"""Model that the gateway serves, with its workers, its routing strategy and its fallbacks."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from cache_index import CacheIndex, Hasher, WorkerId
from gateway.backends.backend import WorkerBackend
from gateway.backends.engine_metrics import Observation
from gateway.backends.fallbacks.fallback_request import FallbackRequest
from gateway.backends.fallbacks.fallbacks import Fallbacks
from gateway.models.adapters.placement import AdapterPlacement
from gateway.models.dispatch_queue import DispatchQueue
from gateway.models.engine_field_rules import EngineFieldRules
from gateway.models.exact_prompts import ExactPrompt, ExactPrompts
from gateway.models.model_price import ModelPrice
from gateway.models.objectives import ModelObjectives
from gateway.models.open_streams import OpenStreams
from gateway.models.prefill_decode_plan import PrefillDecodePlan
from gateway.models.pull_plan import PullPlan
from gateway.models.response_caching import ResponseCaching
from gateway.models.rewrites import ModelRewrites
from gateway.models.worker_arrivals import WorkerArrivals
from gateway.models.worker_gauges import WorkerGauges, WorkerReading
from gateway.protocol.body import Body
from gateway.protocol.headers import HeaderLookup
from gateway.protocol.json_bounds import may_be_tokenized
from gateway.protocol.request_hints import client_timeout_s, requested_first_token_s, requested_strategy
from gateway.protocol.session_identity import BY_SESSION, scoped_session, session_name
from gateway.tenancy.ledger.price import Price
from gateway.tenancy.quota.plan import Metered
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.team import CallerPriority
from routing.fleet import Fleet
from routing.request import BATCH, HIGH, LOW, NORMAL, Request
from routing.retry_budget import RetryBudget
from routing.strategies import STRATEGIES, WITHOUT_EVENTS

SPILL_SHARE = 0.5
"""Share of a caller's timeout after which a fallback answers instead, because the fallback also needs time."""

PRIORITIES: Final[dict[CallerPriority, int]] = {"batch": BATCH, "low": LOW, "normal": NORMAL, "high": HIGH}
"""Routing priority for each priority of a caller."""


@dataclass(slots=True)
class _Traffic:
    """Requests of one model that are in progress, shared by the model's former and current settings."""

    retry_budget: RetryBudget
    in_flight: int = 0
    arrivals: WorkerArrivals = field(default_factory=WorkerArrivals)
    streams: OpenStreams = field(default_factory=OpenStreams)


ContinuationMode = Literal["off", "tokens", "text"]
"""Methods to continue a stream on another worker: never, from its token ids, or from its text."""


class Model:
    """Model as configured, with everything that is needed for a request to it.

    When the settings change, a new instance takes over from *former*. A running request keeps its instance.
    """

    prefill_decode: PrefillDecodePlan | None
    """Plan for requests that a prefill worker and a decode worker share, or None if one worker answers each request."""
    pulls: PullPlan | None
    """Addresses from which workers pull cached blocks of each other, or None if they do not."""
    context_tokens: int | None
    """Maximum number of prompt and output tokens together, or None if unknown."""
    engine_fields: EngineFieldRules
    """Rules for request fields that control engines internally."""
    allows_background: bool
    """Whether teams are allowed to request background responses, whose tokens the gateway cannot count."""
    answers_as_asked: bool
    """Whether answers contain the model name of the request instead of the name that the worker uses."""
    response_caching: ResponseCaching | None
    """Rules by which answers are kept, or None if they never are."""
    has_fleet: bool
    """Whether workers can serve the model, now or later. Otherwise, requests do not wait for a worker."""
    adapter: AdapterPlacement | None
    """Placement of the model's LoRA adapter, or None for a base model. The reconciler sets this attribute."""
    metered: Metered
    """Name, token prices and length limit of the model, used for quotas."""

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
        dispatch_queue: DispatchQueue,
        workers: Mapping[WorkerId, WorkerBackend],
        fallbacks: Fallbacks | None = None,
        continuation: ContinuationMode = "off",
        context_tokens: int | None = None,
        spills_when_late: bool = True,
        retry_budget: RetryBudget | None = None,
        price: Price | None = None,
        gpu_hour_usd: float | None = None,
        batch_discount: float = 0.0,
        max_output_tokens: int | None = None,
        engine_fields: EngineFieldRules = EngineFieldRules(),  # noqa: B008  # frozen
        objectives: ModelObjectives | None = None,
        rewrites: ModelRewrites | None = None,
        allows_background: bool = False,
        answers_as_asked: bool = True,
        response_caching: ResponseCaching | None = None,
        prefill_decode: PrefillDecodePlan | None = None,
        pulls: PullPlan | None = None,
        former: "Model | None" = None,
    ) -> None:
        self.name, self.upstream_name, self.strategy = name, upstream_name, strategy
        self._allows_strategy_header, self.session_header = allows_strategy_header, session_header
        self.workers, self.fleet, self.dispatch_queue = workers, fleet, dispatch_queue
        self.fallbacks = Fallbacks(name) if fallbacks is None else fallbacks
        self.continuation, self.context_tokens = continuation, context_tokens
        self.prefill_decode, self.pulls = prefill_decode, pulls
        self.engine_fields, self.allows_background = engine_fields, allows_background
        self.answers_as_asked, self.response_caching = answers_as_asked, response_caching
        self.has_fleet, self.adapter = True, None
        self._spills_when_late, self._objectives, self.rewrites = spills_when_late, objectives, rewrites
        self.pricing = ModelPrice(price, gpu_hour_usd, fleet, self.fallbacks, batch_discount=batch_discount)
        longest = min(filter(None, (max_output_tokens, context_tokens)), default=None)
        max_usd = self.pricing.max_usd if self.fallbacks else None
        self.metered = Metered(name, self.pricing.cost_usd, longest, max_usd)
        self._traffic = _Traffic(retry_budget or RetryBudget(1.0, 10.0))
        self._successor: Model | None = None
        self._leaving: tuple[WorkerBackend, ...] = ()
        self._gauges: WorkerGauges = WorkerGauges(fleet, index, workers, None if former is None else former._gauges)  # noqa: SLF001
        if former is not None:
            self._continue_from(former)
        self._hasher, self._index = hasher, index
        self.exact_prompts = exact_prompts
        self._plain_scope = upstream_name.encode() + b"\0"

    @property
    def in_flight(self) -> int:
        """Number of requests in progress, including requests that started with former settings."""
        return self._traffic.in_flight

    @in_flight.setter
    def in_flight(self, value: int) -> None:
        self._traffic.in_flight = value

    @property
    def retry_budget(self) -> RetryBudget:
        """Budget that limits retries of failed requests."""
        return self._traffic.retry_budget

    @property
    def arrivals(self) -> WorkerArrivals:
        """Requests of the model that wait for a worker to become available."""
        return self._traffic.arrivals

    @property
    def streams(self) -> OpenStreams:
        """Open streams of the model that another worker would be able to continue."""
        return self._traffic.streams

    @property
    def latest(self) -> "Model":
        """Instance of the model with the current settings. Long requests use this instance to find new workers."""
        model = self
        while model._successor is not None:  # of the same class
            model = model._successor
        return model

    def succeeded_by(self, model: "Model") -> None:
        """Record that the instance *model*, which has newer settings, replaces this instance."""
        self._successor = model

    @property
    def follows(self) -> bool:
        """Whether the gateway follows the KV events of the model's workers."""
        return self.exact_prompts is not None

    async def exact_prompt(self, path: str, raw: bytes, body: Body) -> ExactPrompt | None:
        """Return the exact prompt of the body *raw*, sent to *path* and parsed as *body*, or None if it is unknown."""
        if self.exact_prompts is None or not body.reads_cache:
            return None
        if not may_be_tokenized(raw):
            self.exact_prompts.unknown["slow"] += 1
            return None
        return await self.exact_prompts.tokenize(path, raw, body.cache_salt)

    def request(
        self,
        body: Body,
        header: HeaderLookup,
        pinned: WorkerId | None,
        exact: ExactPrompt | None = None,
        caller: Caller | None = None,
        *,
        team: str = "",
    ) -> Request:
        """Return the routing request for *body*. If *pinned* is given, only that worker can answer.

        *header* returns a request header by name. *exact* is the result of `exact_prompt`. *caller* is None without
        teams. An explanation has no *caller*, but can name the *team* whose session the request continues.

        Raises:
            InvalidField: if a header has an invalid value. *param* names the header.
            Forbidden: if the caller may not choose the requested strategy.
        """
        prompt = body.prompt
        deadline_s = client_timeout_s(header)
        fleet = self.fleet
        strategy = requested_strategy(header) if self._allows_strategy_header else None
        if caller is not None:
            team = caller.team.name
            if strategy is not None:
                caller.permits.check_strategy(strategy)
        is_named = body.hides_session_id or (strategy or self.strategy) == BY_SESSION
        return Request(
            prefix=self._hasher.prefix(prompt, self._scope(body)),
            prompt_bytes=body.prompt_bytes,
            prompt_tokens=body.prompt_bytes / fleet.bytes_per_token.ratio if exact is None else float(exact.tokens),
            output_tokens=fleet.output_length.expected(body.max_tokens),
            session=scoped_session(session_name(header, self.session_header, body.session if is_named else None), team),
            streams=body.streams,
            reads_cache=body.reads_cache,
            writes_cache=body.writes_cache,
            pinned=pinned,
            exact=() if exact is None else exact.prefixes,
            wanted_in_s=requested_first_token_s(header),
            deadline_s=deadline_s,
            spill_in_s=self._spills_in_s(caller, deadline_s),
            team=team,
            weight=1.0 if caller is None else caller.weight,
            priority=_priority(caller, self._objectives, header),
            strategy=strategy,
        )

    def fallback_request(
        self, path: str, body: Body, request: Request, caller: Caller | None
    ) -> FallbackRequest | None:
        """Return the description of a request for fallbacks, or None if no fallback is allowed to answer it."""
        if not self.fallbacks or (caller is not None and not caller.may_fall_back):
            return None
        return FallbackRequest(
            prompt_tokens=request.prompt_tokens,
            max_tokens=body.max_tokens,
            expected_output_tokens=request.output_tokens,
            team=request.team,
            path=path,
        )

    @property
    def effective_policy(self) -> str:
        """Return the name of the strategy that is in effect now.

        ``kv_aware`` becomes ``prefix_aware`` while no engine publishes KV events, or ``kv_aware_in_part`` if some do.
        """
        if not STRATEGIES[self.strategy].needs_events:
            return self.strategy
        confirmed = [worker.is_confirmed for worker in self.fleet if worker.is_ready and worker.role != "decode"]
        if not any(confirmed):
            return WITHOUT_EVENTS
        return self.strategy if all(confirmed) else f"{self.strategy}_in_part"

    def why_not_ready(self) -> str | None:
        """Return the reason why no request can be answered now, or None if requests can be answered."""
        return None if self.fallbacks else self.why_no_worker()

    def why_no_worker(self) -> str | None:
        """Return the reason why no worker can answer a request now, or None if a worker can."""
        if any(worker.is_answering for worker in self.fleet):
            return None if self.prefill_decode is None else self.prefill_decode.why_no_prefill()
        return _why_none_answers(self.fleet)

    def went_down(self, worker: WorkerId) -> None:
        """Move unanswered requests of *worker* to another worker or a fallback, if one is available.

        An engine that hangs, or a machine without power, closes no connection, so these requests would wait for their
        timeout. Answers that have begun stay: an engine that is too busy for a health check may still generate.
        """
        if self.why_not_ready() is None:
            for backend in (self.workers[worker], *self._leaving):
                if backend.id == worker:
                    backend.abandon_unanswered()

    def unreachable(self, worker: WorkerId) -> None:
        """Mark all workers at the address of *worker* as down until a health check succeeds."""
        gone = self.workers.get(worker)
        if gone is not None:
            for other, backend in self.workers.items():
                if backend.url == gone.url:
                    self.fleet.set_up(other, up=False)
            self.dispatch_queue.turn()

    def came_up(self) -> None:
        """Wake the waiting requests, because a worker is new or available again."""
        self.arrivals.announce()
        self.dispatch_queue.turn()

    def hand_over(self, worker: WorkerId) -> int:
        """Move those streams of *worker* that another worker can continue, and return their number."""
        if not any(other.is_answering for other in self.fleet if other.id != worker):
            return 0
        return self.streams.hand_over(worker)

    def set_draining(self, worker: WorkerId, *, draining: bool) -> None:
        """Stop or resume sending new requests to *worker*. Running requests continue."""
        self.fleet.set_draining(worker, draining=draining)
        self.came_up()

    def observed(self, worker: WorkerId, observation: Observation) -> None:
        """Add *observation* to the gauges of *worker*, and correct routing's estimate of the worker's queue."""
        self._gauges.observed(worker, observation)
        waiting = observation.reading.waiting
        if waiting is not None:
            self.fleet.engine_queue_reported(worker, waiting, observation.read_at)
            self.dispatch_queue.turn()

    def readings(self, now: float) -> Iterator[WorkerReading]:
        """Yield the gauges of every worker at the time *now*, in monotonic seconds."""
        return self._gauges.readings(now)

    def held_blocks(self, worker: WorkerId) -> int:
        """Return the predicted number of cached blocks on *worker*, for all models that it serves."""
        return self._index.held(worker)

    async def aclose(self) -> None:
        """Close the connections to the model's workers and fallbacks."""
        for worker in (*self.workers.values(), *self._leaving):
            await worker.aclose()
        await self.fallbacks.aclose()
        if self.prefill_decode is not None:
            await self.prefill_decode.aclose()

    def _continue_from(self, former: "Model") -> None:
        """Take over the running requests of *former*, and those of its backends that still serve requests."""
        self._traffic = former._traffic  # noqa: SLF001  # of the same class
        staying = {id(backend) for backend in self.workers.values()}
        backends = (*former._leaving, *former.workers.values())  # noqa: SLF001
        self._leaving = tuple(b for b in backends if b.connections_open and id(b) not in staying)

    def _spills_in_s(self, caller: Caller | None, deadline_s: float | None) -> float | None:
        """Return the seconds of waiting after which a fallback should answer, or None if long waits do not matter."""
        if not self.fallbacks or not self._spills_when_late or (caller is not None and not caller.may_fall_back):
            return None
        wanted_s = None if caller is None else caller.team.ttft_s
        deadline_s = None if deadline_s is None else SPILL_SHARE * deadline_s
        if wanted_s is None or deadline_s is None:
            return deadline_s if wanted_s is None else wanted_s
        return min(wanted_s, deadline_s)

    def _scope(self, body: Body) -> bytes:
        """Return the key that separates caches. Only requests with equal keys can share cached blocks."""
        salt = body.cache_salt
        return self._plain_scope + salt.encode() if salt else self._plain_scope


def _priority(caller: Caller | None, objectives: ModelObjectives | None, header: HeaderLookup) -> int:
    """Return the routing priority of a request of *caller*, whose headers may name one of *objectives*."""
    own = NORMAL if caller is None else PRIORITIES[caller.priority]
    return own if objectives is None else objectives.level(header, own, may_raise=caller is None)


def _why_none_answers(fleet: Fleet) -> str:
    """Return the reasons why no worker in *fleet* can answer, with the number of workers for each reason."""
    answering = [worker for worker in fleet if worker.role != "prefill"]
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
