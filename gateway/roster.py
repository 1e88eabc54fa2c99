"""Who serves what at this moment: keeps registry, fleets, connections and checks in step with the settings.

1. First everything is made, which may fail and changes nothing; then all is put in place in one synchronous step.
2. Whatever is as it was before keeps its state: a worker its load, rates, cache and connections, a strategy its turn.
3. A request goes on with the `Model` that it began with. What left is closed when the last of its calls is over.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import httpx

from cache_index import CacheIndex, Hasher, WorkerId
from cache_index.confirmed import Confirmed
from cache_index.tokens import TokenHasher
from gateway.backends.backend import Backend, WorkerBackend
from gateway.backends.bedrock.aws import CredentialChain, SigV4Signer
from gateway.backends.bedrock.backend import BedrockBackend
from gateway.backends.bedrock.endpoint import Timeouts as BedrockTimeouts
from gateway.backends.worker import HttpWorker
from gateway.checkup import Patient
from gateway.engine_metrics import Observation
from gateway.exact_prompts import ExactPrompts
from gateway.followers import Followers, Subject
from gateway.health import Health, Rules
from gateway.kv_events.sources import by_hand
from gateway.ledger.price import Price
from gateway.model_names import ModelNames
from gateway.models import Model, Models
from gateway.settings import ModelBedrockSettings, ModelSettings, PriceSettings, Settings, WorkerSettings
from gateway.tokenizers import Tokenizers
from gateway.tokenizing.engine_question import EngineAddress
from gateway.turnstile import Turnstile
from gateway.upstream.timeouts import Timeouts
from routing.breaker import Breaker
from routing.dispatcher import Dispatcher, Immediate
from routing.fair_queue import Fairness
from routing.fleet import Fleet
from routing.late_binding import LateBinding, Patience
from routing.strategies import STRATEGIES
from routing.strategies.by_name import StrategiesByName
from routing.tiers import TierPrices

FOLLOWING = "kv_aware"
"""The strategy that needs to know what engines tell of their caches."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """How the gateway knows of caches: by what was sent to workers, and by what their engines tell."""

    index: CacheIndex
    hasher: Hasher
    confirmed: Confirmed
    token_hasher: TokenHasher
    """The one that `confirmed` was made with."""
    tokenizers: Tokenizers
    followers: Followers


@dataclass(frozen=True, slots=True)
class _Made:
    """A model and what it was made from."""

    model: Model
    settings: ModelSettings
    shared: Settings
    dispatcher: Dispatcher | None
    """To be used from now on by the model's turnstile; None: it has the right one."""


class Roster:
    """Makes models from settings, and puts them in place of those that were there."""

    def __init__(
        self,
        models: Models,
        health: Health,
        *,
        knowledge: Knowledge,
        client: httpx.AsyncClient,
        clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self._models = models
        self._health = health
        self._knowledge = knowledge
        self._client = client
        self._clock = clock
        self._rng = rng
        self._made: dict[str, _Made] = {}

    def take(self, settings: Settings) -> None:
        """Serve what *settings* say, from this moment on: whole sets of models and workers, never differences.

        Raises:
            ValueError: something cannot be made; then nothing has changed.
        """
        made = {model.name: self._make(model, settings) for model in settings.models}
        names = ModelNames([(model.name, model.aliases) for model in settings.models])
        self._put_in_place(made, names, rules_of(settings))

    # ---- making

    def _make(self, model: ModelSettings, settings: Settings) -> _Made:
        former = self._made.get(model.name)
        if former is None:
            fleet = self._fleet(settings)
        elif model == former.settings and _same_for_all(settings, former.shared):
            return former
        else:
            fleet = former.model.fleet
        dispatcher = None
        if former is None or _holding(former.settings, former.shared) != _holding(model, settings):
            dispatcher = self._dispatcher(model, settings, fleet)
        if former is not None:
            turnstile = former.model.turnstile
        else:
            assert dispatcher is not None, "a new model has a new one"
            turnstile = Turnstile(dispatcher, fleet, clock=self._clock)
        made = self._model(model, settings, fleet, turnstile, former)
        return _Made(made, model, settings, None if former is None else dispatcher)

    def _model(
        self, model: ModelSettings, settings: Settings, fleet: Fleet, turnstile: Turnstile, former: _Made | None
    ) -> Model:
        return Model(
            model.name,
            upstream_name=model.upstream_model,
            strategy=model.strategy,
            allows_strategy_header=model.strategy_header,
            session_header=model.session_header.encode("ascii"),
            hasher=self._knowledge.hasher,
            exact_prompts=self._exact_prompts(model, fleet, former),
            index=self._knowledge.index,
            fleet=fleet,
            turnstile=turnstile,
            workers=dict(self._workers(model, settings, former)),
            fallback=self._fallback(model, settings, former),
            price=_price(model.price),
            fallback_price=_price(None if model.bedrock is None else model.bedrock.price),
            gpu_hour_usd=model.price.gpu_hour_usd,
            max_output_tokens=model.max_output_tokens,
            former=None if former is None else former.model,
        )

    def _fleet(self, settings: Settings) -> Fleet:
        limits, events = settings.breaker, settings.kv_events
        return Fleet(
            self._knowledge.index,
            confirmed=self._knowledge.confirmed,
            tier_prices=TierPrices(cpu=events.cpu_price, disk=events.disk_price, shared=events.shared_price),
            block_bytes=settings.index.block_bytes,
            prefill_tokens_per_s=settings.routing.initial_prefill_tokens_per_s,
            lease_s=settings.routing.lease_s,
            breaker=lambda: Breaker(failures=limits.failures, window_s=limits.window_s, open_s=limits.open_s),
        )

    def _workers(
        self, model: ModelSettings, settings: Settings, former: _Made | None
    ) -> Iterator[tuple[WorkerId, WorkerBackend]]:
        """Those that are exactly as they were keep their connections."""
        before: dict[WorkerSettings, WorkerBackend] = {}
        if former is not None and settings.timeouts == former.shared.timeouts:
            before = {worker: former.model.workers[WorkerId(worker.id)] for worker in former.settings.workers}
        for worker in model.workers:
            worker_id = WorkerId(worker.id)
            kept = before.get(worker)
            if kept is not None:
                yield worker_id, kept
            else:
                yield worker_id, an_http_worker(worker, settings)

    def _dispatcher(self, model: ModelSettings, settings: Settings, fleet: Fleet) -> Dispatcher:
        strategies = StrategiesByName(model.strategy, lambda name: STRATEGIES[name](self._rng))
        fairness = fairness_of(settings)
        if fairness is None and not follows(model):
            return Immediate(fleet, strategies)
        held = settings.routing
        patience = Patience(depth_s=held.depth_s, max_wait_s=held.max_wait_s, most_waiting=held.most_waiting)
        return LateBinding(fleet, strategies, self._rng, patience, fairness)

    def _exact_prompts(self, model: ModelSettings, fleet: Fleet, former: _Made | None) -> ExactPrompts | None:
        """A tokenizer is large: as long as its settings are the same it is kept, with all that it remembers."""
        if not follows(model):
            return None
        if former is not None and follows(former.settings) and _same_tokens(model, former.settings):
            return former.model.exact_prompts
        source = self._knowledge.tokenizers.of(model.name, model.tokenizer, partial(self._addresses, model.name))
        return ExactPrompts(
            source.rung,
            fleet,
            hasher=self._knowledge.token_hasher,
            upstream_name=model.upstream_model,
            base=base_of(model),
            adapter=None if model.adapter_of is None else model.upstream_model,
            local=source.local,
        )

    def _addresses(self, model: str) -> list[EngineAddress]:
        """The engines of *model* that may be asked something at this moment."""
        made = self._made.get(model)
        if made is None:
            return []
        up = {state.id for state in made.model.fleet if state.is_ready}
        return [
            EngineAddress(worker.url, _authorization(worker)) for worker in made.settings.workers if worker.id in up
        ]

    def _fallback(self, model: ModelSettings, settings: Settings, former: _Made | None) -> Backend | None:
        if model.bedrock is None:
            return None
        if former is not None and (model.bedrock, settings.bedrock) == (former.settings.bedrock, former.shared.bedrock):
            return former.model.fallback
        return bedrock(model.bedrock, settings, self._client)

    # ---- putting in place

    def _put_in_place(self, made: dict[str, _Made], names: ModelNames, rules: Rules) -> None:
        former, self._made = self._made, made
        everybody = {worker for each in made.values() for worker in each.model.workers}
        for name, each in former.items():
            _retire(each.model, made[name].model if name in made else None)
        for name in former.keys() - made.keys():
            former[name].model.fleet.set_workers((), self._clock(), elsewhere=everybody)
        for name, each in made.items():
            if each is not former.get(name):
                self._man(each.model, former[name].model if name in former else None, everybody)
        self._models.replace({name: each.model for name, each in made.items()}, names)
        self._health.attend(self._patients(), rules)
        self._knowledge.followers.attend(self._subjects())
        for name, each in made.items():
            if each.dispatcher is not None and each is not former.get(name):
                each.model.turnstile.use(each.dispatcher)
            each.model.turnstile.turn()

    def _man(self, model: Model, former: Model | None, everybody: set[WorkerId]) -> None:
        """Bring the fleet of *model* in step with its workers; whoever is new has to prove that it is up."""
        fleet, now = model.fleet, self._clock()
        if former is not None:
            fleet.set_workers([state.id for state in fleet if not _has_moved(state.id, former, model)], now)
        known = {state.id for state in fleet}
        fleet.set_workers(model.workers, now, elsewhere=everybody)
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


def fairness_of(settings: Settings) -> Fairness | None:
    """How teams share a fleet; None where there are none."""
    if not settings.teams and settings.store.url is None and not settings.admin.keys:
        return None
    queue = settings.queue
    return Fairness(queue.most_waiting_per_team, queue.low_share, queue.starvation_s)


def follows(model: ModelSettings) -> bool:
    """Whether it matters to *model* what engines tell of their caches."""
    return model.strategy == FOLLOWING or model.strategy_header


def base_of(model: ModelSettings) -> str:
    """The model that the workers of *model* load."""
    return model.adapter_of or model.upstream_model


def _subject(worker: WorkerSettings, model: str) -> Subject:
    told = worker.kv_events
    sources = None
    if told is not None:
        sources = by_hand(
            url=worker.url, endpoint=told.endpoint, replay_endpoint=told.replay_endpoint, topic=told.topic
        )
    return Subject(WorkerId(worker.id), worker.url, frozenset(_authorization(worker).items()), model, sources)


def _price(price: PriceSettings | None) -> Price | None:
    if price is None:
        return None
    return Price.per_million(
        input_usd=price.input_usd, cached_input_usd=price.cached_input_usd, output_usd=price.output_usd
    )


def _authorization(worker: WorkerSettings) -> dict[str, str]:
    """The header by which *worker* knows the gateway."""
    key = worker.api_key
    return {"authorization": f"Bearer {key.get_secret_value()}"} if key else {}


def _same_tokens(model: ModelSettings, former: ModelSettings) -> bool:
    """Whether the exact prompts of both are made the same way."""

    def parts(settings: ModelSettings) -> tuple[object, ...]:
        return settings.tokenizer, settings.upstream_model, settings.adapter_of

    return parts(model) == parts(former)


def an_http_worker(worker: WorkerSettings, settings: Settings) -> HttpWorker:
    patience = settings.timeouts
    return HttpWorker(
        worker.id,
        worker.url,
        api_key=worker.api_key.get_secret_value() if worker.api_key else None,
        timeouts=Timeouts(
            connect_s=patience.connect_s,
            first_byte_s=patience.first_byte_s,
            idle_s=patience.idle_s,
            total_s=patience.total_s,
        ),
        max_connections=worker.max_connections,
    )


def bedrock(model: ModelBedrockSettings, settings: Settings, client: httpx.AsyncClient) -> BedrockBackend:
    """One model of Bedrock."""
    shared = settings.bedrock
    region = model.region or shared.region
    assert region is not None, "the settings see to it"
    return BedrockBackend(
        model_id=model.model_id,
        region=region,
        client=client,
        signer=SigV4Signer(region=region, credentials=CredentialChain(profile=shared.profile)),
        endpoint_url=model.endpoint_url or shared.endpoint_url,
        default_max_tokens=model.default_max_tokens,
        timeouts=BedrockTimeouts(first_event_s=model.first_event_timeout_s),
    )


def _same_for_all(settings: Settings, former: Settings) -> bool:
    """Whether the groups that all models share, and that may change, are the same."""

    def parts(settings: Settings) -> tuple[object, ...]:
        return settings.timeouts, settings.bedrock, fairness_of(settings)

    return parts(settings) == parts(former)


def _holding(model: ModelSettings, settings: Settings) -> tuple[object, ...]:
    """What decides which dispatcher the model has."""
    return model.strategy, follows(model), fairness_of(settings)


def _retire(former: Model, model: Model | None) -> None:
    """Let go of the backends that *former* had and *model* has not.

    Nobody looks after a worker that left: what one that was down had not begun to answer goes elsewhere at once.
    """
    up = {state.id for state in former.fleet if state.is_up}
    for worker, backend in former.workers.items():
        if model is not None and model.workers.get(worker) is backend:
            continue
        backend.retire()
        has_left = model is None or worker not in model.workers or _has_moved(worker, former, model)
        if has_left and worker not in up:
            backend.abandon_unanswered()


def _has_moved(worker: WorkerId, former: Model, model: Model) -> bool:
    """Whether *worker* is at another address than before: then it is another process, whatever it is called."""
    return worker in model.workers and model.workers[worker].url != former.workers[worker].url
