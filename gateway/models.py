"""The models that are served, each with its workers, its strategy and its fallback."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from cache_index import CacheIndex, Hasher, WorkerId
from gateway.backends.backend import Backend, WorkerBackend
from gateway.body import Body
from gateway.engine_metrics import Observation
from gateway.errors import InvalidField, UnknownModel
from gateway.exact_prompts import ExactPrompt, ExactPrompts
from gateway.ledger.price import Price
from gateway.model_names import ModelNames
from gateway.quota.plan import Metered
from gateway.teams.caller import Caller
from gateway.teams.team import Priority
from gateway.turnstile import Turnstile
from routing.fleet import Fleet
from routing.request import HIGH, LOW, NORMAL, Request
from routing.strategies import NAMES

STRATEGY_HEADER = b"x-warmgate-strategy"
"""By which a caller may ask for a strategy of its own choice."""

WANTED_HEADER = b"x-warmgate-wanted-s"
"""By which a caller says in how many seconds it wants the first token."""


TIMEOUT_HEADERS = (b"x-stainless-read-timeout", b"x-stainless-timeout")
"""In which OpenAI's SDKs say for how many seconds they wait: that for Python (``_base_client.py``), that for Node."""

PRIORITIES: Mapping[Priority, int] = {"low": LOW, "normal": NORMAL, "high": HIGH}
"""As routing has them."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One worker's gauges."""

    worker: str
    values: Mapping[str, float]


@dataclass(slots=True)
class _Traffic:
    """The requests of one model, under whichever settings they began."""

    in_flight: int = 0


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
        fallback: Backend | None = None,
        price: Price | None = None,
        fallback_price: Price | None = None,
        gpu_hour_usd: float | None = None,
        max_output_tokens: int | None = None,
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
        self.fallback = fallback
        self._price = price or Price()
        self._gpu_hour_usd = gpu_hour_usd
        self._fallback_price = fallback_price
        self.metered = Metered(name, self._cost_usd, max_output_tokens)
        """As limits know it."""
        self._traffic = _Traffic()
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
    def price(self) -> Price:
        """What its tokens cost at this moment."""
        if self._gpu_hour_usd is None:
            return self._price
        prefill_s, decode_s = self.fleet.token_times()
        return Price.per_gpu_hour(self._gpu_hour_usd, prefill_s_per_token=prefill_s, decode_s_per_token=decode_s)

    @property
    def fallback_price(self) -> Price:
        """What the tokens of the fallback's answers cost."""
        return self.price if self._fallback_price is None else self._fallback_price

    @property
    def follows(self) -> bool:
        """Whether it matters to it what engines tell of their caches."""
        return self.exact_prompts is not None

    async def exact_prompt(self, path: str, raw: bytes, body: Body) -> ExactPrompt | None:
        """The prompt of *raw*, which came to *path* and was read as *body*, by its exact tokens; None if unknown."""
        if self.exact_prompts is None or not body.reads_cache:
            return None
        return await self.exact_prompts.of(path, raw, body.cache_salt)

    def request(
        self,
        body: Body,
        header: Callable[[bytes], str | None],
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
        fleet = self.fleet
        strategy = _strategy_in(header) if self._allows_strategy_header else None
        if caller is not None and strategy is not None:
            caller.permits.check_strategy(strategy)
        return Request(
            prefix=self._hasher.prefix(prompt, self._scope(body)),
            prompt_bytes=len(prompt),
            prompt_tokens=len(prompt) / fleet.bytes_per_token.ratio if exact is None else float(exact.tokens),
            output_tokens=fleet.output_length.expected(body.max_tokens),
            session=header(self.session_header) or body.session,
            streams=body.streams,
            reads_cache=body.reads_cache,
            writes_cache=body.writes_cache,
            pinned=pinned,
            exact=() if exact is None else exact.prefixes,
            wanted_in_s=_seconds_in(header, WANTED_HEADER),
            deadline_s=_patience_in(header),
            team="" if caller is None else caller.team.name,
            weight=1.0 if caller is None else caller.weight,
            priority=NORMAL if caller is None else PRIORITIES[caller.priority],
            strategy=strategy,
        )

    @property
    def effective_policy(self) -> str:
        """What the strategy comes to at this moment.

        ``kv_aware`` without any worker whose engine tells of its cache ranks as ``prefix_aware``; ``kv_aware_in_part``
        where that is so of some.
        """
        if self.strategy != "kv_aware":
            return self.strategy
        told = [worker.is_confirmed for worker in self.fleet if worker.is_ready]
        if not any(told):
            return "prefix_aware"
        return "kv_aware" if all(told) else "kv_aware_in_part"

    def why_not_ready(self) -> str | None:
        """None if somebody could answer a request."""
        if self.fallback is not None or any(worker.is_ready for worker in self.fleet):
            return None
        workers = len(self.workers)
        if workers == 0:
            return "there are no workers yet"
        reasons = Counter(filter(None, (worker.why_not_ready for worker in self.fleet)))
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

    def set_draining(self, worker: WorkerId, *, draining: bool) -> None:
        """Send *worker* no more requests, or send it some again; those that it has go on."""
        self.fleet.set_draining(worker, draining=draining)
        self.turnstile.turn()

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
        """Close the connections to the workers."""
        for worker in (*self.workers.values(), *self._leaving):
            await worker.aclose()

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


def _strategy_in(header: Callable[[bytes], str | None]) -> str | None:
    """The strategy that a caller asks for; None if it leaves that to the model."""
    name = header(STRATEGY_HEADER)
    if name is not None and name not in NAMES:
        raise InvalidField(
            f"The header 'x-warmgate-strategy' must be one of {', '.join(NAMES)}", param="x-warmgate-strategy"
        )
    return name


def _seconds_in(header: Callable[[bytes], str | None], name: bytes) -> float | None:
    """The seconds that the header *name* says; None if there is none."""
    said = header(name)
    if said is None:
        return None
    try:
        seconds = float(said)
    except ValueError:
        seconds = math.nan
    if not 0.0 <= seconds < math.inf:
        text = name.decode("ascii")
        raise InvalidField(f"The header {text!r} must be a number of seconds", param=text)
    return seconds


def _patience_in(header: Callable[[bytes], str | None]) -> float | None:
    """For how many seconds the caller waits, if its SDK says so in a way that is understood."""
    for name in TIMEOUT_HEADERS:
        said = header(name)
        if said is not None:
            try:
                seconds = float(said)
            except ValueError:
                return None
            return seconds if 0.0 < seconds < math.inf else None
    return None


class Models:
    """The registry: every configured model, found by name, alias or pattern."""

    def __init__(self, models: Mapping[str, Model] | None = None, names: ModelNames | None = None) -> None:
        """None are served until they are put in their place."""
        self._models = models or {}
        self._names = names or ModelNames([])

    def __iter__(self) -> Iterator[Model]:
        """The models of this moment, also if they are replaced meanwhile."""
        return iter(self._models.values())

    def replace(self, models: Mapping[str, Model], names: ModelNames) -> None:
        """Serve *models* from this moment on, and no others."""
        self._models = models
        self._names = names

    def ids(self) -> list[str]:
        """Names and exact aliases under which clients may ask."""
        return self._names.exact

    def get(self, name: str) -> Model | None:
        """The model that is configured as *name*, if there is one."""
        return self._models.get(name)

    def find(self, name: str) -> Model:
        """The model that answers for *name*.

        Raises:
            UnknownModel: none does.
        """
        known = self._names.resolve(name)
        if known is None:
            raise UnknownModel(f"The model {name[:100]!r} does not exist or is not served here", param="model")
        return self._models[known]
