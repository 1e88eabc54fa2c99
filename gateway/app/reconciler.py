"""Reconcile models, worker fleets, connections and health checks with the settings.

1. All models are built first, which may fail without any effect. Then they are put in place in one synchronous step.
2. Unchanged parts keep their state: a worker keeps its load, rates, cache and connections, and a strategy its turn.
3. A request continues with the `Model` with which it started. A removed backend is closed after its last request.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from cache_index import WorkerId
from gateway.app.model_factory import Knowledge, ModelBuild, ModelFactory
from gateway.app.model_spec import ServingPlan
from gateway.backends.engine_metrics import Observation
from gateway.backends.upstream.engine_progress import EnginesProgress
from gateway.models.adapters.placement import AdapterPlacement
from gateway.models.adapters.registry import AdapterRegistry, AdapterTimeouts, ServedAdapter
from gateway.models.model_names import ModelNames
from gateway.models.registry import Models
from gateway.models.tokenizing.engine_question import EngineAddress
from gateway.workers.event_subscriptions import SubscriptionTarget
from gateway.workers.health import Health
from gateway.workers.health_checker import HealthTarget
from gateway.workers.kv_events.sources import EventSources, by_hand
from gateway.workers.worker_place import WorkerPlace
from gateway.workers.worker_spec import WorkerSpec
from routing.fleet import Fleet
from routing.shared_worker_load import SharedWorkerLoad, SharingFleet


class Reconciler:
    """Service that builds models from a serving plan and replaces the models in service with them."""

    def __init__(
        self,
        models: Models,
        health: Health,
        *,
        knowledge: Knowledge,
        clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self._models = models
        self._health = health
        self._knowledge = knowledge
        self._clock = clock
        self._rng = rng
        self._shared_load = SharedWorkerLoad()
        self.adapter_registry = AdapterRegistry(clock=clock)
        """LoRA adapters and the workers that have loaded them."""
        self._engines = EnginesProgress(health.read_soon)
        self._model_factory = ModelFactory(
            knowledge=knowledge,
            addresses=self._addresses,
            engines=self._engines,
            clock=clock,
            rng=rng,
        )
        self._made: dict[str, ModelBuild] = {}

    def take(self, plan: ServingPlan) -> None:
        """Serve *plan* from now on. A serving plan always lists all models and workers.

        Raises:
            ValueError: if a model cannot be built. Then nothing has changed.
        """
        made = {spec.name: self._model_factory.make(spec, self._made.get(spec.name)) for spec in plan.models}
        names = ModelNames([*((spec.name, spec.aliases) for spec in plan.models), *plan.route_names])
        self._put_in_place(made, names, plan)

    def _addresses(self, model: str) -> list[EngineAddress]:
        """Return the addresses of the model's ready engines, each address once."""
        made = self._made.get(model)
        if made is None:
            return []
        up = {state.id for state in made.model.fleet if state.is_ready}
        # One for each address: ranks behind it have one server.
        found = {worker.url: worker for worker in made.spec.workers if worker.id in up}
        return [EngineAddress(url, worker.authorization) for url, worker in found.items()]

    # ---- putting in place

    def _put_in_place(self, made: dict[str, ModelBuild], names: ModelNames, plan: ServingPlan) -> None:
        former, self._made = self._made, made
        everybody = {worker for each in made.values() for worker in each.model.workers}
        for name, each in former.items():
            _retire(each, made.get(name))
        for name in former.keys() - made.keys():
            former[name].model.fleet.set_workers((), self._clock(), elsewhere=everybody)
        for name, each in made.items():
            if each is not former.get(name):
                self._man(each, former.get(name), everybody)
        self._place_adapters(plan.adapter_timeouts)
        self._introduce()
        routes = plan.build_routes(self._rng, self._models.routes)
        self._models.replace({name: each.model for name, each in made.items()}, names, routes)
        plan.set_fallback_rates()
        self._health.attend(self._patients(), plan.health)
        self._knowledge.event_subscriptions.attend(self._subjects())
        for name, each in made.items():
            if each.dispatcher is not None and each is not former.get(name):
                each.model.dispatch_queue.use(each.dispatcher)
            each.model.came_up()

    def _place_adapters(self, timeouts: AdapterTimeouts) -> None:
        """Set which models are LoRA adapters, and on which workers each adapter can be loaded."""
        subjects = []
        for each in self._made.values():
            subject = _served_adapter(each)
            if subject is None:
                each.model.adapter = None
            else:
                subjects.append(subject)
                each.model.adapter = AdapterPlacement(self.adapter_registry, subject, each.model.upstream_name)
        self.adapter_registry.attend(subjects, timeouts)

    def _introduce(self) -> None:
        """Let fleets with common workers see each other's load on these workers."""
        fleets: dict[WorkerId, list[SharingFleet]] = {}
        dispatch_queues = {each.model.fleet.bookings: each.model.dispatch_queue for each in self._made.values()}
        for each in self._made.values():
            for worker in each.model.workers:
                fleets.setdefault(worker, []).append(each.model.fleet.bookings)
        shared = {worker: found for worker, found in fleets.items() if len(found) > 1}

        def eased(fleet: SharingFleet) -> None:
            dispatch_queue = dispatch_queues.get(fleet)  # type: ignore[call-overload]  # only bookings of fleets are in it
            if dispatch_queue is not None:
                dispatch_queue.turn()

        self._shared_load.set_fleets(shared, eased)
        for each in self._made.values():
            if any(state.id in shared for state in each.model.fleet):
                each.model.fleet.bookings.set_shared_load(self._shared_load)

    def _man(self, made: ModelBuild, former: ModelBuild | None, everybody: set[WorkerId]) -> None:
        """Set the workers of a model's fleet to the workers that the model has now.

        A new worker counts as down until a health check succeeds.
        """
        model = made.model
        fleet, now = model.fleet, self._clock()
        if former is not None:
            former.model.succeeded_by(model)
            moved = _moved(former, made)
            fleet.set_workers([state.id for state in fleet if state.id not in moved], now)
        known = {state.id for state in fleet}
        fleet.set_workers(model.workers, now, elsewhere=everybody)
        fleet.members.set_tiers({WorkerId(worker.id): worker.tier for worker in made.spec.workers})
        divides = made.spec.disaggregation is not None
        fleet.members.set_roles({WorkerId(w.id): w.role for w in made.spec.workers if divides and w.role != "both"})
        _set_pulls(made)
        fleet.members.set_zone_penalties(
            {WorkerId(worker.id): made.spec.zone_penalty_of(worker) for worker in made.spec.workers}
        )
        for worker in model.workers:
            if worker not in known:
                fleet.set_up(worker, up=False)

    def _patients(self) -> Iterator[HealthTarget]:
        """Yield one health check target per model and address. Workers with the same address are checked together."""
        for name, each in self._made.items():
            by_url: dict[str, list[WorkerSpec]] = {}
            for worker in each.spec.workers:
                by_url.setdefault(worker.url, []).append(worker)
            for workers in by_url.values():
                yield self._patient(name, each, workers)

    def _patient(self, name: str, made: ModelBuild, workers: Sequence[WorkerSpec]) -> HealthTarget:
        """Return the health check target for *workers*, which share one address."""
        first = workers[0]
        ids = tuple(WorkerId(worker.id) for worker in workers)
        places = [(WorkerId(worker.id), worker.place) for worker in workers]
        return HealthTarget(
            WorkerId(first.base_id),
            first.url,
            made.model.fleet,
            name,
            partial(self._went_down, name, ids),
            headers=first.authorization,
            came_up=partial(self._came_up, name),
            uid=first.uid,
            places=tuple((worker, place.instance, place.rank) for worker, place in places if place is not None),
            on_reading=partial(self._observed, name, first.url, places),
            wants_adapters=partial(self.adapter_registry.wants_list, first.url),
            on_adapters=partial(self.adapter_registry.listed, first.url),
        )

    def _subjects(self) -> dict[SubscriptionTarget, list[Fleet]]:
        """Return the workers to subscribe to for KV events, each with the fleets to which it belongs.

        An engine loads one base model, even if it also serves LoRA adapters.
        """
        subjects: dict[WorkerId, SubscriptionTarget] = {}
        fleets: dict[SubscriptionTarget, list[Fleet]] = {}
        for each in self._made.values():
            for worker in each.spec.workers if each.spec.needs_events else ():
                subject = subjects.setdefault(WorkerId(worker.id), _subject(worker, each.spec.base))
                fleets.setdefault(subject, []).append(each.model.fleet)
        return fleets

    # By name: a worker may be under observation for longer than the model that it was put under observation with.

    def _went_down(self, model: str, workers: Sequence[WorkerId]) -> None:
        for worker in workers:
            self._made[model].model.went_down(worker)

    def _came_up(self, model: str) -> None:
        self._made[model].model.came_up()

    def _observed(
        self, model: str, url: str, places: Sequence[tuple[WorkerId, WorkerPlace | None]], observation: Observation
    ) -> None:
        """Pass the metrics that were read from the address *url* to each worker at that address."""
        whole, model_workers = observation.reading, self._made[model].model.workers
        self._engines.note(url, whole.generated, asked_at=observation.asked_at, read_at=observation.read_at)
        backend = model_workers.get(places[0][0])
        if backend is not None:
            self.adapter_registry.observed(backend.url, observation)
        for worker, place in places:
            own = whole if place is None else whole.of(place.instance, place.rank)
            self._made[model].model.observed(worker, replace(observation, reading=own))


def _set_pulls(made: ModelBuild) -> None:
    """Set the rules for pulls between the workers of a model."""
    pull, fleet = made.spec.pull, made.model.fleet
    known = {} if pull is None or pull.host_tokens is None else dict.fromkeys(made.model.workers, pull.host_tokens)
    fleet.set_host_tokens(known)
    if pull is not None:
        fleet.pulls.after_requests = pull.after_requests


def _served_adapter(build: ModelBuild) -> ServedAdapter | None:
    """Return the LoRA adapter that the model of *build* stands for, with its workers, or None for a base model."""
    spec = build.spec
    if spec.adapter is None:
        return None
    urls = {WorkerId(worker.id): worker.url for worker in spec.workers}
    return ServedAdapter(spec.name, spec.adapter, build.model.fleet, urls)


def _subject(worker: WorkerSpec, model: str) -> SubscriptionTarget:
    events, place = worker.kv_events, worker.place
    sources = None
    if events is not None:
        ranks = events.ranks if place is None else (place.rank or 0) + 1
        sources = by_hand(
            url=worker.url,
            endpoint=events.endpoint,
            replay_endpoint=events.replay_endpoint,
            topic=events.topic,
            ranks=ranks,
        )
    headers = frozenset(worker.authorization.items())
    if place is None:
        return SubscriptionTarget(WorkerId(worker.id), worker.url, headers, model, sources, worker.uid)
    if place.instance is not None and sources is None:
        sources = EventSources(())  # a frontend, which has none, is not asked
    pinned = {name.decode("ascii"): value.decode("ascii") for name, value in place.headers}
    return SubscriptionTarget(
        *(WorkerId(worker.id), worker.url, headers | frozenset(pinned.items()), model, sources, worker.uid),
        rank=place.rank or 0,
        name=worker.base_id,
    )


def _retire(former: ModelBuild, made: ModelBuild | None) -> None:
    """Release the backends of the model *former* that the new model *made* does not contain.

    A removed worker gets no more health checks. If the worker is down, its unanswered requests therefore move to other
    workers at once.
    """
    model = None if made is None else made.model
    former.model.fallbacks.retire(None if model is None else model.fallbacks)
    up = {state.id for state in former.model.fleet if state.is_up}
    moved = set() if made is None else _moved(former, made)
    for worker, backend in former.model.workers.items():
        if model is not None and model.workers.get(worker) is backend:
            continue
        backend.retire()
        has_left = model is None or worker not in model.workers or worker in moved
        if has_left and worker not in up:
            backend.abandon_unanswered()


def _moved(former: ModelBuild, made: ModelBuild) -> set[WorkerId]:
    """Return the workers whose address or identity changed.

    They are different processes, even if their names are the same.

    A new pod may have the name or the address of its predecessor, or both.
    """
    before = {worker.id: (worker.url, worker.uid) for worker in former.spec.workers}
    now = {worker.id: (worker.url, worker.uid) for worker in made.spec.workers}
    return {WorkerId(worker) for worker in before.keys() & now.keys() if before[worker] != now[worker]}
