"""Makes models from settings; nothing that is made is in use before the roster puts it in place.

Whatever is as it was before keeps its state: a worker its connections, a strategy its turn, a tokenizer its memory.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from cache_index import CacheIndex, Hasher, WorkerId
from cache_index.confirmed import Confirmed
from cache_index.tokens import TokenHasher
from gateway.backends.backend import WorkerBackend
from gateway.backends.worker import HttpWorker
from gateway.cascade.assembly import Cascades, timeouts_of
from gateway.cascade.cascade import Cascade
from gateway.disaggregation.division import Division
from gateway.exact_prompts import ExactPrompts
from gateway.followers import Followers
from gateway.ledger.price import Price
from gateway.model import Model
from gateway.ranks.addresses import Addresses
from gateway.ranks.place import base_id, place_of
from gateway.replicas.replicas import Sharing
from gateway.replicas.shared_key import derived
from gateway.settings import ModelSettings, PriceSettings, Settings, WorkerSettings
from gateway.tokenizers import Tokenizers
from gateway.tokenizing.engine_question import EngineAddress
from gateway.turnstile import Turnstile
from gateway.upstream.engine_progress import EnginesProgress
from routing.breaker import Breaker
from routing.disaggregation import ByDecodeLoad, Handover, Rule
from routing.dispatcher import Dispatcher, Immediate
from routing.fair_queue import Fairness
from routing.fleet import Fleet
from routing.late_binding import LateBinding
from routing.patience import Patience
from routing.retry_budget import RetryBudget
from routing.strategies import STRATEGIES
from routing.strategies.by_name import StrategiesByName
from routing.tiers import TierPrices

BY_LOAD = "least_loaded"
"""What the choice of those is called that answer prompts which others compute; the model's strategy chooses the others.
"""
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
    sharing: Sharing | None = None
    """With replicas, where there may be some."""

    def rehash(self, key: bytes, fleets: Iterable[Fleet]) -> None:
        """Hash prompts and what engines tell under *key* from now on: what is known under another cannot be found."""
        self.hasher.use(derived(key, "text"))
        self.token_hasher.use(derived(key, "tokens"))
        self.followers.begin_anew()
        for fleet in fleets:
            fleet.forget_prompts()


@dataclass(frozen=True, slots=True)
class Made:
    """A model and what it was made from."""

    model: Model
    settings: ModelSettings
    shared: Settings
    dispatcher: Dispatcher | None
    """To be used from now on by the model's turnstile; None: it has the right one."""


class ModelMaker:
    """Makes one model at a time. *addresses* gives the engines of a model, by its name, that may be asked something."""

    def __init__(
        self,
        *,
        knowledge: Knowledge,
        cascades: Cascades,
        addresses: Callable[[str], list[EngineAddress]],
        engines: EnginesProgress,
        clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self._knowledge = knowledge
        self._cascades = cascades
        self._addresses = addresses
        self._engines = engines
        self._clock = clock
        self._rng = rng

    def make(self, model: ModelSettings, settings: Settings, former: Made | None) -> Made:
        """The model that *model* and *settings* say, which goes on from *former*; that itself, if nothing has changed.

        Raises:
            ValueError: something cannot be made; then nothing has changed.
        """
        if former is None:
            fleet = self._fleet(model, settings)
        elif model == former.settings and _same_for_all(settings, former.shared):
            return former
        else:
            fleet = former.model.fleet
        division = self._division(model, fleet, former)
        dispatcher = None
        if former is None or _holding(former.settings, former.shared) != _holding(model, settings):
            dispatcher = self._dispatcher(model, settings, fleet, division)
        if former is not None:
            turnstile = former.model.turnstile
        else:
            assert dispatcher is not None, "a new model has a new one"
            turnstile = Turnstile(dispatcher, fleet, clock=self._clock)
        made = self._model(model, settings, fleet, turnstile, former, division)
        made.has_fleet = model.has_fleet
        return Made(made, model, settings, None if former is None else dispatcher)

    def _model(  # noqa: PLR0917  # what was made before it, in that order
        self,
        model: ModelSettings,
        settings: Settings,
        fleet: Fleet,
        turnstile: Turnstile,
        former: Made | None,
        division: Division | None,
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
            cascade=self._cascade(model, settings, fleet, former),
            continuation=model.continuation,
            context_tokens=model.context_tokens,
            spills_when_late=model.spill.when_late,
            retry_budget=RetryBudget(settings.retry.budget_share, settings.retry.budget_floor_per_s),
            price=_price(model.price),
            gpu_hour_usd=model.price.gpu_hour_usd,
            max_output_tokens=model.max_output_tokens,
            allowed_engine_fields=frozenset(model.allowed_engine_fields),
            allows_background=model.allow_background,
            answers_as_asked=model.answer_model == "asked",
            division=division,
            former=None if former is None else former.model,
        )

    def _fleet(self, model: ModelSettings, settings: Settings) -> Fleet:
        limits, events, sharing = settings.breaker, settings.kv_events, self._knowledge.sharing
        return Fleet(
            self._knowledge.index,
            confirmed=self._knowledge.confirmed,
            tier_prices=TierPrices(cpu=events.cpu_price, disk=events.disk_price, shared=events.shared_price),
            block_bytes=settings.index.block_bytes,
            prefill_tokens_per_s=settings.routing.initial_prefill_tokens_per_s,
            lease_s=settings.routing.lease_s,
            breaker=lambda: Breaker(
                failures=limits.failures,
                window_s=limits.window_s,
                open_s=limits.open_s,
                error_share=limits.error_share,
                least_requests=limits.least_requests,
            ),
            witness=None if sharing is None else sharing.outbox.witness(model.name),
        )

    def _workers(
        self, model: ModelSettings, settings: Settings, former: Made | None
    ) -> Iterator[tuple[WorkerId, WorkerBackend]]:
        """Those that are reached exactly as they were keep their connections."""
        before: dict[WorkerSettings, WorkerBackend] = {}
        if former is not None and settings.timeouts == former.shared.timeouts:
            before = {_reached(each): former.model.workers[WorkerId(each.id)] for each in former.settings.workers}
        staying = {worker.id: before.get(_reached(worker)) for worker in model.workers}
        addresses = Addresses(filter(None, staying.values()))
        for worker in model.workers:
            kept, place = staying[worker.id], place_of(worker)
            if kept is not None:
                yield WorkerId(worker.id), kept
            elif place is None:
                yield WorkerId(worker.id), self._http_worker(worker, settings)
            else:
                made = addresses.worker(worker.id, place, worker.url, partial(self._shared, worker, settings))
                yield WorkerId(worker.id), made

    def _shared(self, worker: WorkerSettings, settings: Settings) -> HttpWorker:
        """The connections to the address that *worker* shares."""
        return self._http_worker(worker.model_copy(update={"id": base_id(worker)}), settings)

    def _http_worker(self, worker: WorkerSettings, settings: Settings) -> HttpWorker:
        return HttpWorker(
            worker.id,
            worker.url,
            api_key=worker.api_key.get_secret_value() if worker.api_key else None,
            timeouts=timeouts_of(settings),
            max_connections=worker.max_connections,
            engine=self._engines.of(worker.url),
        )

    def _dispatcher(
        self, model: ModelSettings, settings: Settings, fleet: Fleet, division: Division | None
    ) -> Dispatcher:
        ties = None if self._knowledge.sharing is None else self._knowledge.sharing.ties
        if division is None:
            strategies = StrategiesByName(model.strategy, lambda name: STRATEGIES[name](self._rng, ties))
        else:
            strategies = StrategiesByName(BY_LOAD, lambda _: division.by_load)
        fairness = fairness_of(settings)
        if fairness is None and (division is not None or not follows(model)):
            return Immediate(fleet, strategies)
        held = settings.routing
        patience = Patience(depth_s=held.depth_s, max_wait_s=held.max_wait_s, most_waiting=held.most_waiting)
        return LateBinding(fleet, strategies, self._rng, patience, fairness, ties=ties)

    def _division(self, model: ModelSettings, fleet: Fleet, former: Made | None) -> Division | None:
        """What hops were learnt to cost stays known."""
        told = model.disaggregation
        if told is None:
            return None
        before = None if former is None else former.model.division
        ties = None if self._knowledge.sharing is None else self._knowledge.sharing.ties
        handover = Handover() if before is None else before.handover
        rule = Rule(told.least_uncached_tokens, told.flow == "sglang")
        return Division(
            told.flow,
            fleet=fleet,
            strategies=StrategiesByName(model.strategy, lambda name: STRATEGIES[name](self._rng, ties)),
            by_load=ByDecodeLoad(self._rng, handover, rule, ties),
            handover=handover,
            rng=self._rng,
            replace_loopback=told.replace_loopback,
            bootstrap_ports={WorkerId(each.id): each.bootstrap_port for each in model.workers if each.bootstrap_port},
        )

    def _exact_prompts(self, model: ModelSettings, fleet: Fleet, former: Made | None) -> ExactPrompts | None:
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
            adapter=model.adapter_name,
            local=source.local,
        )

    def _cascade(self, model: ModelSettings, settings: Settings, fleet: Fleet, former: Made | None) -> Cascade:
        before = None if former is None else former.model.cascade
        return self._cascades.of(model, settings, former=before, token_times=fleet.token_times)


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
    return model.adapter_base or model.upstream_model


def _price(price: PriceSettings | None) -> Price | None:
    if price is None:
        return None
    return Price.per_million(
        input_usd=price.input_usd, cached_input_usd=price.cached_input_usd, output_usd=price.output_usd
    )


def _same_tokens(model: ModelSettings, former: ModelSettings) -> bool:
    """Whether the exact prompts of both are made the same way."""

    def parts(settings: ModelSettings) -> tuple[object, ...]:
        return settings.tokenizer, settings.upstream_model, settings.adapter_base, settings.adapter_name

    return parts(model) == parts(former)


def _reached(worker: WorkerSettings) -> WorkerSettings:
    """*worker* without what only says when requests go there, or where it stands."""
    return worker.model_copy(
        update={"draining": False, "tier": 0, "zone": None, "role": "both", "bootstrap_port": None}
    )


def _same_for_all(settings: Settings, former: Settings) -> bool:
    """Whether the groups that all models share, and that may change, are the same."""

    def parts(settings: Settings) -> tuple[object, ...]:
        return settings.timeouts, settings.bedrock, fairness_of(settings)

    return parts(settings) == parts(former)


def _holding(model: ModelSettings, settings: Settings) -> tuple[object, ...]:
    """What decides which dispatcher the model has."""
    return model.strategy, follows(model), fairness_of(settings), model.disaggregation
