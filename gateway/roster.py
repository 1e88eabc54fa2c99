"""Who serves what at this moment: keeps registry, fleets, connections and checks in step with the settings.

1. First everything is made, which may fail and changes nothing; then all is put in place in one synchronous step.
2. Whatever is as it was before keeps its state: a worker its load, rates, cache and connections, a strategy its turn.
3. A request goes on with the `Model` that it began with. What left is closed when the last of its calls is over.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from cache_index import WorkerId
from gateway.adapters.assembly import patience_of, subject_of
from gateway.adapters.placement import Placement
from gateway.adapters.shelf import Shelf
from gateway.cascade.assembly import Cascades
from gateway.checkup import Patient
from gateway.engine_metrics import Observation
from gateway.followers import Subject
from gateway.health import Health, Rules
from gateway.kv_events.sources import Sources, by_hand
from gateway.model_maker import Knowledge, Made, ModelMaker, base_of, follows
from gateway.model_names import ModelNames
from gateway.models import Models
from gateway.ranks.place import Place, base_id, place_of
from gateway.rollout.assembly import routes_of
from gateway.settings import Settings, WorkerSettings
from gateway.tokenizing.engine_question import EngineAddress
from gateway.upstream.engine_progress import EnginesProgress
from routing.fleet import Fleet
from routing.neighbours import Neighbour, Neighbours


class Roster:
    """Makes models from settings, and puts them in place of those that were there."""

    def __init__(
        self,
        models: Models,
        health: Health,
        *,
        knowledge: Knowledge,
        cascades: Cascades,
        clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self._models = models
        self._health = health
        self._knowledge = knowledge
        self._cascades = cascades
        self._clock = clock
        self._rng = rng
        self._neighbours = Neighbours()
        self.shelf = Shelf(clock=clock)
        """Where LoRA adapters are."""
        self._engines = EnginesProgress(health.read_soon)
        self._maker = ModelMaker(
            knowledge=knowledge,
            cascades=cascades,
            addresses=self._addresses,
            engines=self._engines,
            clock=clock,
            rng=rng,
        )
        self._made: dict[str, Made] = {}

    def take(self, settings: Settings) -> None:
        """Serve what *settings* say, from this moment on: whole sets of models and workers, never differences.

        Raises:
            ValueError: something cannot be made; then nothing has changed.
        """
        made = {model.name: self._maker.make(model, settings, self._made.get(model.name)) for model in settings.models}
        names = ModelNames(
            [(model.name, model.aliases) for model in settings.models]
            + [(route.name, route.aliases) for route in settings.routes]
        )
        self._put_in_place(made, names, settings)

    def _addresses(self, model: str) -> list[EngineAddress]:
        """The engines of *model* that may be asked something at this moment."""
        made = self._made.get(model)
        if made is None:
            return []
        up = {state.id for state in made.model.fleet if state.is_ready}
        # One for each address: ranks behind it have one server.
        found = {worker.url: worker for worker in made.settings.workers if worker.id in up}
        return [EngineAddress(url, _authorization(worker)) for url, worker in found.items()]

    # ---- putting in place

    def _put_in_place(self, made: dict[str, Made], names: ModelNames, settings: Settings) -> None:
        former, self._made = self._made, made
        everybody = {worker for each in made.values() for worker in each.model.workers}
        for name, each in former.items():
            _retire(each, made.get(name))
        for name in former.keys() - made.keys():
            former[name].model.fleet.set_workers((), self._clock(), elsewhere=everybody)
        for name, each in made.items():
            if each is not former.get(name):
                self._man(each, former.get(name), everybody)
        self._place_adapters(settings)
        self._introduce()
        routes = routes_of(settings.routes, self._rng, self._models.routes)
        self._models.replace({name: each.model for name, each in made.items()}, names, routes)
        self._cascades.attend(settings)
        self._health.attend(self._patients(), rules_of(settings))
        self._knowledge.followers.attend(self._subjects())
        for name, each in made.items():
            if each.dispatcher is not None and each is not former.get(name):
                each.model.turnstile.use(each.dispatcher)
            each.model.came_up()

    def _place_adapters(self, settings: Settings) -> None:
        """Say which models are LoRA adapters, and let each know where it is."""
        subjects = []
        for each in self._made.values():
            subject = subject_of(each.settings, each.model.fleet)
            if subject is None:
                each.model.adapter = None
            else:
                subjects.append(subject)
                each.model.adapter = Placement(self.shelf, subject, each.model.upstream_name)
        self.shelf.attend(subjects, patience_of(settings.adapters))

    def _introduce(self) -> None:
        """Let fleets that have workers in common know of each other's load."""
        fleets: dict[WorkerId, list[Neighbour]] = {}
        turnstiles = {each.model.fleet: each.model.turnstile for each in self._made.values()}
        for each in self._made.values():
            for worker in each.model.workers:
                fleets.setdefault(worker, []).append(each.model.fleet)
        shared = {worker: found for worker, found in fleets.items() if len(found) > 1}

        def eased(fleet: Neighbour) -> None:
            turnstile = turnstiles.get(fleet)  # type: ignore[call-overload]  # none but fleets are in it
            if turnstile is not None:
                turnstile.turn()

        self._neighbours.set_fleets(shared, eased)
        for fleet in turnstiles:
            if any(state.id in shared for state in fleet):
                fleet.set_neighbours(self._neighbours)

    def _man(self, made: Made, former: Made | None, everybody: set[WorkerId]) -> None:
        """Bring the fleet of a model in step with its workers; whoever is new has to prove that it is up."""
        model = made.model
        fleet, now = model.fleet, self._clock()
        if former is not None:
            former.model.succeeded_by(model)
            moved = _moved(former, made)
            fleet.set_workers([state.id for state in fleet if state.id not in moved], now)
        known = {state.id for state in fleet}
        fleet.set_workers(model.workers, now, elsewhere=everybody)
        fleet.set_tiers({WorkerId(worker.id): worker.tier for worker in made.settings.workers})
        divides = made.settings.disaggregation is not None
        fleet.set_roles({WorkerId(w.id): w.role for w in made.settings.workers if divides and w.role != "both"})
        fleet.set_ways({WorkerId(worker.id): _way_s(worker, made.shared) for worker in made.settings.workers})
        for worker in model.workers:
            if worker not in known:
                fleet.set_up(worker, up=False)

    def _patients(self) -> Iterator[Patient]:
        """One for each address: who shares it is asked once."""
        for name, each in self._made.items():
            by_url: dict[str, list[WorkerSettings]] = {}
            for worker in each.settings.workers:
                by_url.setdefault(worker.url, []).append(worker)
            for workers in by_url.values():
                yield self._patient(name, each, workers)

    def _patient(self, name: str, made: Made, workers: Sequence[WorkerSettings]) -> Patient:
        """Of *workers*, which have one address."""
        first = workers[0]
        ids = tuple(WorkerId(worker.id) for worker in workers)
        places = [(WorkerId(worker.id), place_of(worker)) for worker in workers]
        return Patient(
            WorkerId(base_id(first)),
            first.url,
            made.model.fleet,
            name,
            partial(self._went_down, name, ids),
            headers=_authorization(first),
            came_up=partial(self._came_up, name),
            uid=first.uid,
            places=tuple((worker, place.instance, place.rank) for worker, place in places if place is not None),
            on_reading=partial(self._observed, name, first.url, places),
            wants_adapters=partial(self.shelf.wants_list, first.url),
            on_adapters=partial(self.shelf.listed, first.url),
        )

    def _subjects(self) -> dict[Subject, list[Fleet]]:
        """Every worker of which it matters what its engine tells, once, with the fleets that it belongs to.

        Its engine loads one model, whatever adapters of it are served besides.
        """
        subjects: dict[WorkerId, Subject] = {}
        fleets: dict[Subject, list[Fleet]] = {}
        for each in self._made.values():
            for worker in each.settings.workers if follows(each.settings) else ():
                subject = subjects.setdefault(WorkerId(worker.id), _subject(worker, base_of(each.settings)))
                fleets.setdefault(subject, []).append(each.model.fleet)
        return fleets

    # By name: a worker may be under observation for longer than the model that it was put under observation with.

    def _went_down(self, model: str, workers: Sequence[WorkerId]) -> None:
        for worker in workers:
            self._made[model].model.went_down(worker)

    def _came_up(self, model: str) -> None:
        self._made[model].model.came_up()

    def _observed(
        self, model: str, url: str, places: Sequence[tuple[WorkerId, Place | None]], observation: Observation
    ) -> None:
        """Tell each of those at one address, *url*, what the reading says of its place."""
        whole, model_workers = observation.reading, self._made[model].model.workers
        self._engines.note(url, whole.generated, asked_at=observation.asked_at, read_at=observation.read_at)
        backend = model_workers.get(places[0][0])
        if backend is not None:
            self.shelf.observed(backend.url, observation)
        for worker, place in places:
            own = whole if place is None else whole.of(place.instance, place.rank)
            self._made[model].model.observed(worker, replace(observation, reading=own))


def rules_of(settings: Settings) -> Rules:
    """By which workers are checked."""
    health = settings.health
    return Rules(
        path=health.path,
        interval_s=health.interval_s,
        timeout_s=health.timeout_s,
        failures_to_down=health.failures_to_down,
        successes_to_up=health.successes_to_up,
        metrics_interval_s=health.metrics_interval_s,
    )


def _way_s(worker: WorkerSettings, settings: Settings) -> float:
    """What a request to *worker* costs more than one to a worker of this zone; nothing where a zone is not known."""
    here = settings.server.zone
    return settings.routing.other_zone_s if here and worker.zone and worker.zone != here else 0.0


def _subject(worker: WorkerSettings, model: str) -> Subject:
    told, place = worker.kv_events, place_of(worker)
    sources = None
    if told is not None:
        ranks = told.ranks if place is None else (place.rank or 0) + 1
        sources = by_hand(
            url=worker.url,
            endpoint=told.endpoint,
            replay_endpoint=told.replay_endpoint,
            topic=told.topic,
            ranks=ranks,
        )
    headers = frozenset(_authorization(worker).items())
    if place is None:
        return Subject(WorkerId(worker.id), worker.url, headers, model, sources, worker.uid)
    if place.instance is not None and sources is None:
        sources = Sources(())  # a frontend, which has none, is not asked
    pinned = {name.decode("ascii"): value.decode("ascii") for name, value in place.headers}
    return Subject(
        *(WorkerId(worker.id), worker.url, headers | frozenset(pinned.items()), model, sources, worker.uid),
        rank=place.rank or 0,
        name=base_id(worker),
    )


def _authorization(worker: WorkerSettings) -> dict[str, str]:
    """The header by which *worker* knows the gateway."""
    key = worker.api_key
    return {"authorization": f"Bearer {key.get_secret_value()}"} if key else {}


def _retire(former: Made, made: Made | None) -> None:
    """Let go of the backends that *former* had and *made* has not.

    Nobody looks after a worker that left: what one that was down had not begun to answer goes elsewhere at once.
    """
    model = None if made is None else made.model
    former.model.cascade.retire(None if model is None else model.cascade)
    up = {state.id for state in former.model.fleet if state.is_up}
    moved = set() if made is None else _moved(former, made)
    for worker, backend in former.model.workers.items():
        if model is not None and model.workers.get(worker) is backend:
            continue
        backend.retire()
        has_left = model is None or worker not in model.workers or worker in moved
        if has_left and worker not in up:
            backend.abandon_unanswered()


def _moved(former: Made, made: Made) -> set[WorkerId]:
    """Workers at another address than before, or of another identity: those are other processes, whatever their names.

    A pod may get the name of the one before it, or its address, or both.
    """
    before = {worker.id: (worker.url, worker.uid) for worker in former.settings.workers}
    now = {worker.id: (worker.url, worker.uid) for worker in made.settings.workers}
    return {WorkerId(worker) for worker in before.keys() & now.keys() if before[worker] != now[worker]}
