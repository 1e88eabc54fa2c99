"""Build models from specifications. A model takes effect only when the reconciler puts it into service.

Unchanged parts keep their state: a worker keeps its connections, a strategy its turn, and a tokenizer its cache.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from cache_index import CacheIndex, Hasher, WorkerId
from cache_index.confirmed import Confirmed
from cache_index.tokens import TokenHasher
from gateway.app.model_spec import ModelSpec
from gateway.app.tokenizers import Tokenizers
from gateway.backends.backend import WorkerBackend
from gateway.backends.upstream.engine_progress import EnginesProgress
from gateway.backends.upstream.timeouts import Timeouts
from gateway.backends.worker import HttpWorker
from gateway.models.dispatch_queue import DispatchQueue
from gateway.models.exact_prompts import ExactPrompts
from gateway.models.model import Model
from gateway.models.objectives import Objectives
from gateway.models.prefill_decode_plan import PrefillDecodePlan
from gateway.models.pull_plan import PullAddress, PullPlan
from gateway.models.rewrites import Rewrites
from gateway.models.tokenizing.engine_question import EngineAddress
from gateway.protocol.worker_address import host_of
from gateway.tenancy.ledger.price import Price
from gateway.workers.event_subscriptions import EventSubscriptions
from gateway.workers.rank_discovery.shared_addresses import SharedAddresses
from gateway.workers.replicas.replicas import Sharing
from gateway.workers.replicas.shared_key import derived
from gateway.workers.worker_spec import WorkerSpec
from routing.breaker import Breaker
from routing.disaggregation import ByDecodeLoad, Handover, HopRule
from routing.dispatcher import Dispatcher, Immediate
from routing.fleet import Fleet
from routing.queueing.late_binding import LateBinding
from routing.retry_budget import RetryBudget
from routing.strategies import STRATEGIES
from routing.strategies.by_name import StrategiesByName

BY_LOAD = "least_loaded"
"""Name of the strategy that selects decode workers. In contrast, the model's strategy selects prefill workers."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Predicted and reported contents of the workers' KV caches."""

    index: CacheIndex
    hasher: Hasher
    confirmed: Confirmed
    token_hasher: TokenHasher
    """Token hasher that also computes the block hashes in `confirmed`."""
    tokenizers: Tokenizers
    event_subscriptions: EventSubscriptions
    sharing: Sharing | None = None
    """State shared with gateway replicas, or None if nothing is shared."""
    objectives: Objectives = field(default_factory=Objectives)
    """Priorities that callers select by name."""
    rewrites: Rewrites = field(default_factory=lambda: Rewrites(random.Random()))
    """Rules that replace the model names of requests."""

    def rehash(self, key: bytes, fleets: Iterable[Fleet]) -> None:
        """Switch all hashers to *key*, and clear the known cache contents, whose hashes used the previous key."""
        self.hasher.use(derived(key, "text"))
        self.token_hasher.use(derived(key, "tokens"))
        self.event_subscriptions.restart_all()
        for fleet in fleets:
            fleet.caches.clear_all()


@dataclass(frozen=True, slots=True)
class ModelBuild:
    """Model together with the specification from which it was built."""

    model: Model
    spec: ModelSpec
    dispatcher: Dispatcher | None
    """New dispatcher for the model's queue, or None if the queue keeps its current dispatcher."""


class ModelFactory:
    """Factory that builds one model at a time. *addresses* returns a model's engines that can be queried."""

    def __init__(
        self,
        *,
        knowledge: Knowledge,
        addresses: Callable[[str], list[EngineAddress]],
        engines: EnginesProgress,
        clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self._knowledge = knowledge
        self._addresses = addresses
        self._engines = engines
        self._clock = clock
        self._rng = rng

    def make(self, spec: ModelSpec, former: ModelBuild | None) -> ModelBuild:
        """Build a model that keeps the state of *former*. Return *former* itself if its specification is unchanged.

        Raises:
            ValueError: if the model cannot be built. Then nothing has changed.
        """
        if former is None:
            fleet = self._fleet(spec)
        elif spec == former.spec:
            return former
        else:
            fleet = former.model.fleet
        prefill_decode = self._prefill_decode(spec, fleet, former)
        dispatcher = None
        if former is None or former.spec.dispatched_by != spec.dispatched_by:
            dispatcher = self._dispatcher(spec, fleet, prefill_decode)
        if former is not None:
            dispatch_queue = former.model.dispatch_queue
        else:
            assert dispatcher is not None, "a new model has a new dispatcher"
            dispatch_queue = DispatchQueue(dispatcher, fleet, clock=self._clock)
        model = self._model(spec, fleet, dispatch_queue, former, prefill_decode)
        model.has_fleet = spec.has_fleet
        return ModelBuild(model, spec, None if former is None else dispatcher)

    def _model(
        self,
        spec: ModelSpec,
        fleet: Fleet,
        dispatch_queue: DispatchQueue,
        former: ModelBuild | None,
        prefill_decode: PrefillDecodePlan | None,
    ) -> Model:
        before = None if former is None else former.model
        return Model(
            spec.name,
            upstream_name=spec.upstream_model,
            strategy=spec.strategy,
            allows_strategy_header=spec.strategy_header,
            session_header=spec.session_header.encode("ascii"),
            hasher=self._knowledge.hasher,
            exact_prompts=self._exact_prompts(spec, fleet, former),
            index=self._knowledge.index,
            fleet=fleet,
            dispatch_queue=dispatch_queue,
            workers=dict(self._workers(spec, former)),
            fallbacks=spec.build_fallbacks(None if before is None else before.fallbacks, fleet.token_times),
            continuation=spec.continuation,
            context_tokens=spec.context_tokens,
            spills_when_late=spec.spills_when_late,
            retry_budget=RetryBudget(spec.retry.budget_share, spec.retry.budget_floor_per_s),
            price=Price.per_million(
                input_usd=spec.price.input_usd,
                cached_input_usd=spec.price.cached_input_usd,
                output_usd=spec.price.output_usd,
            ),
            gpu_hour_usd=spec.price.gpu_hour_usd,
            batch_discount=spec.price.batch_discount,
            max_output_tokens=spec.max_output_tokens,
            engine_fields=spec.engine_fields,
            objectives=self._knowledge.objectives.of(spec.name) if spec.has_objectives else None,
            rewrites=self._knowledge.rewrites.of(spec.name) if spec.has_rewrites else None,
            allows_background=spec.allows_background,
            answers_as_asked=spec.answers_as_asked,
            response_caching=spec.response_caching,
            prefill_decode=prefill_decode,
            pulls=_pulls(spec),
            former=before,
        )

    def _fleet(self, spec: ModelSpec) -> Fleet:
        rules, limits, sharing = spec.fleet, spec.fleet.breaker, self._knowledge.sharing
        return Fleet(
            self._knowledge.index,
            confirmed=self._knowledge.confirmed,
            tier_prices=rules.tier_prices,
            block_bytes=rules.block_bytes,
            prefill_tokens_per_s=rules.prefill_tokens_per_s,
            lease_s=rules.lease_s,
            breaker=lambda: Breaker(
                failures=limits.failures,
                window_s=limits.window_s,
                open_s=limits.open_s,
                error_share=limits.error_share,
                min_requests=limits.min_requests,
            ),
            observer=None if sharing is None else sharing.outbox.observer(spec.name),
        )

    def _workers(self, spec: ModelSpec, former: ModelBuild | None) -> Iterator[tuple[WorkerId, WorkerBackend]]:
        """Yield the backend of each worker of a model.

        A backend whose address and settings are unchanged keeps its connections.
        """
        before: dict[WorkerSpec, WorkerBackend] = {}
        if former is not None and spec.timeouts == former.spec.timeouts:
            before = {_reached(each): former.model.workers[WorkerId(each.id)] for each in former.spec.workers}
        staying = {worker.id: before.get(_reached(worker)) for worker in spec.workers}
        addresses = SharedAddresses(filter(None, staying.values()))
        for worker in spec.workers:
            kept, place = staying[worker.id], worker.place
            if kept is not None:
                yield WorkerId(worker.id), kept
            elif place is None:
                yield WorkerId(worker.id), self._http_worker(worker, spec.timeouts)
            else:
                made = addresses.worker(worker.id, place, worker.url, partial(self._shared, worker, spec.timeouts))
                yield WorkerId(worker.id), made

    def _shared(self, worker: WorkerSpec, timeouts: Timeouts) -> HttpWorker:
        """Return a new connection pool for an address that several workers share, one of which is *worker*."""
        return self._http_worker(replace(worker, id=worker.base_id), timeouts)

    def _http_worker(self, worker: WorkerSpec, timeouts: Timeouts) -> HttpWorker:
        return HttpWorker(
            worker.id,
            worker.url,
            api_key=worker.api_key,
            timeouts=timeouts,
            max_connections=worker.max_connections,
            engine=self._engines.of(worker.url),
        )

    def _dispatcher(self, spec: ModelSpec, fleet: Fleet, prefill_decode: PrefillDecodePlan | None) -> Dispatcher:
        ties = None if self._knowledge.sharing is None else self._knowledge.sharing.ties
        if prefill_decode is None:
            strategies = StrategiesByName(spec.strategy, lambda name: STRATEGIES[name](self._rng, ties))
        else:
            strategies = StrategiesByName(BY_LOAD, lambda _: prefill_decode.by_load)
        is_held = STRATEGIES[spec.strategy].is_late_bound or spec.strategy_header
        if spec.fairness is None and (prefill_decode is not None or not is_held):
            return Immediate(fleet, strategies)
        return LateBinding(fleet, strategies, self._rng, spec.release, spec.fairness, ties=ties)

    def _prefill_decode(self, spec: ModelSpec, fleet: Fleet, former: ModelBuild | None) -> PrefillDecodePlan | None:
        """Return the plan for prefill on separate workers, or None. Measured transfer costs are kept."""
        given = spec.disaggregation
        if given is None:
            return None
        before = None if former is None else former.model.prefill_decode
        ties = None if self._knowledge.sharing is None else self._knowledge.sharing.ties
        handover = Handover() if before is None else before.handover
        rule = HopRule(given.min_uncached_tokens, given.flow == "sglang")
        return PrefillDecodePlan(
            given.flow,
            fleet=fleet,
            strategies=StrategiesByName(spec.strategy, lambda name: STRATEGIES[name](self._rng, ties)),
            by_load=ByDecodeLoad(self._rng, handover, rule, ties),
            handover=handover,
            rng=self._rng,
            replace_loopback=given.replace_loopback,
            bootstrap_ports={WorkerId(each.id): each.bootstrap_port for each in spec.workers if each.bootstrap_port},
        )

    def _exact_prompts(self, spec: ModelSpec, fleet: Fleet, former: ModelBuild | None) -> ExactPrompts | None:
        """Return the tokenizer for the model's prompts. While its settings stay the same, it is kept with its cache."""
        if not spec.needs_events:
            return None
        if former is not None and former.spec.needs_events and former.spec.tokens_from == spec.tokens_from:
            return former.model.exact_prompts
        source = self._knowledge.tokenizers.of(spec.name, spec.tokenizer, partial(self._addresses, spec.name))
        return ExactPrompts(
            source.token_source,
            fleet,
            hasher=self._knowledge.token_hasher,
            upstream_name=spec.upstream_model,
            base=spec.base,
            adapter=None if spec.adapter is None else spec.adapter.name,
            local=source.local,
        )


def _pulls(spec: ModelSpec) -> PullPlan | None:
    """Return where the workers of a model pull cached blocks from each other, or None if they do not."""
    if spec.pull is None:
        return None
    default = spec.pull.port
    return PullPlan(
        {
            WorkerId(worker.id): PullAddress(host_of(worker.url), (worker.pull_port or default) + _rank(worker))
            for worker in spec.workers
        }
    )


def _rank(worker: WorkerSpec) -> int:
    """Return the number of the worker's data-parallel rank, or 0."""
    return 0 if worker.place is None or worker.place.rank is None else worker.place.rank


def _reached(worker: WorkerSpec) -> WorkerSpec:
    """Return a copy of *worker* with default values for all fields that do not affect its connections."""
    return replace(worker, draining=False, tier=0, zone=None, role="both", bootstrap_port=None, pull_port=None)
