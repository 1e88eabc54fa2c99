"""Who serves what at this moment: keeps registry, fleets, connections and checks in step with the settings.

1. First everything is made, which may fail and changes nothing; then all is put in place in one synchronous step.
2. Whatever is as it was before keeps its state: a worker its load, rates, cache and connections, a strategy its turn.
3. A request goes on with the `Model` that it began with. What left is closed when the last of its calls is over.
"""

import random
from collections.abc import Callable, Iterator
from functools import partial

from cache_index import WorkerId
from gateway.cascade.assembly import Cascades
from gateway.checkup import Patient
from gateway.engine_metrics import Observation
from gateway.followers import Subject
from gateway.health import Health, Rules
from gateway.kv_events.sources import by_hand
from gateway.model_maker import Knowledge, Made, ModelMaker, base_of, follows
from gateway.model_names import ModelNames
from gateway.models import Models
from gateway.settings import Settings, WorkerSettings
from gateway.tokenizing.engine_question import EngineAddress
from routing.fleet import Fleet


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
        self._maker = ModelMaker(
            knowledge=knowledge, cascades=cascades, addresses=self._addresses, clock=clock, rng=rng
        )
        self._made: dict[str, Made] = {}

    def take(self, settings: Settings) -> None:
        """Serve what *settings* say, from this moment on: whole sets of models and workers, never differences.

        Raises:
            ValueError: something cannot be made; then nothing has changed.
        """
        made = {model.name: self._maker.make(model, settings, self._made.get(model.name)) for model in settings.models}
        names = ModelNames([(model.name, model.aliases) for model in settings.models])
        self._put_in_place(made, names, settings)

    def _addresses(self, model: str) -> list[EngineAddress]:
        """The engines of *model* that may be asked something at this moment."""
        made = self._made.get(model)
        if made is None:
            return []
        up = {state.id for state in made.model.fleet if state.is_ready}
        return [
            EngineAddress(worker.url, _authorization(worker)) for worker in made.settings.workers if worker.id in up
        ]

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
        self._models.replace({name: each.model for name, each in made.items()}, names)
        self._cascades.attend(settings)
        self._health.attend(self._patients(), rules_of(settings))
        self._knowledge.followers.attend(self._subjects())
        for name, each in made.items():
            if each.dispatcher is not None and each is not former.get(name):
                each.model.turnstile.use(each.dispatcher)
            each.model.came_up()

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
        fleet.set_ways({WorkerId(worker.id): _way_s(worker, made.shared) for worker in made.settings.workers})
        for worker in model.workers:
            if worker not in known:
                fleet.set_up(worker, up=False)

    def _patients(self) -> Iterator[Patient]:
        for name, each in self._made.items():
            for worker in each.settings.workers:
                worker_id = WorkerId(worker.id)
                yield Patient(
                    worker_id,
                    worker.url,
                    each.model.fleet,
                    name,
                    partial(self._went_down, name, worker_id),
                    partial(self._observed, name, worker_id),
                    _authorization(worker),
                    partial(self._came_up, name),
                    worker.uid,
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

    def _went_down(self, model: str, worker: WorkerId) -> None:
        self._made[model].model.went_down(worker)

    def _came_up(self, model: str) -> None:
        self._made[model].model.came_up()

    def _observed(self, model: str, worker: WorkerId, observation: Observation) -> None:
        self._made[model].model.observed(worker, observation)


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
    told = worker.kv_events
    sources = None
    if told is not None:
        sources = by_hand(
            url=worker.url,
            endpoint=told.endpoint,
            replay_endpoint=told.replay_endpoint,
            topic=told.topic,
            ranks=told.ranks,
        )
    headers = frozenset(_authorization(worker).items())
    return Subject(WorkerId(worker.id), worker.url, headers, model, sources, worker.uid)


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
