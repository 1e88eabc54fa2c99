"""Specifications from which models are built. If two specifications are equal, nothing has to be rebuilt."""

import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Literal

from gateway.app.fallbacks import TokenTimes
from gateway.app.tokenizers import TokenizerSpec
from gateway.backends.fallbacks.fallbacks import Fallbacks
from gateway.backends.upstream.timeouts import Timeouts
from gateway.models.adapters.adapter import Adapter
from gateway.models.adapters.registry import AdapterTimeouts
from gateway.models.engine_field_rules import EngineFieldRules
from gateway.models.response_caching import ResponseCaching
from gateway.models.routes.routes import RouteTable
from gateway.workers.health import HealthRules
from gateway.workers.worker_spec import WorkerSpec
from routing.learning.load_rates import TierPrices
from routing.queueing.fair_queue import Fairness
from routing.queueing.release_policy import ReleasePolicy
from routing.strategies import STRATEGIES


@dataclass(frozen=True, slots=True)
class DisaggregationSpec:
    """Method by which prefill workers hand requests over to decode workers."""

    flow: Literal["nixl", "sglang"]
    min_uncached_tokens: int | None
    replace_loopback: bool


@dataclass(frozen=True, slots=True)
class PullSpec:
    """Pulls of cached blocks from the host memory of other workers."""

    port: int
    """Port for pulls of each worker without a port of its own."""
    host_tokens: int | None
    """Number of tokens that the host memory of each worker can hold, or None to learn it."""
    after_requests: int
    """Number of requests after which workers begin to pull."""


@dataclass(frozen=True, slots=True)
class BreakerSpec:
    """Thresholds at which the circuit breaker stops sending requests to a failing worker."""

    failures: int
    window_s: float
    open_s: float
    error_share: float
    min_requests: int


@dataclass(frozen=True, slots=True)
class FleetSpec:
    """Rules for the workers of a model, fixed when the model is first built."""

    tier_prices: TierPrices
    block_bytes: int
    prefill_tokens_per_s: float
    lease_s: float
    breaker: BreakerSpec


@dataclass(frozen=True, slots=True)
class RetrySpec:
    """Retry budget: the share of requests that can be retried, and the retries per second that are always allowed."""

    budget_share: float
    budget_floor_per_s: float


@dataclass(frozen=True, slots=True)
class TokenPrices:
    """Prices in US dollars per million tokens, or per hour of a worker."""

    input_usd: float
    cached_input_usd: float | None
    output_usd: float
    gpu_hour_usd: float | None
    batch_discount: float = 0.0
    """Share of the price that lines of batches do not pay."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Specification of one model with all of its workers."""

    name: str
    aliases: tuple[str, ...]
    upstream_model: str
    workers: tuple[WorkerSpec, ...]
    has_fleet: bool
    """Whether the model can have workers. Otherwise, only its fallbacks serve it."""
    strategy: str
    strategy_header: bool
    session_header: str
    adapter: Adapter | None
    tokenizer: TokenizerSpec
    disaggregation: DisaggregationSpec | None
    pull: PullSpec | None
    """Pulls of cached blocks between workers, or None without pulls."""
    continuation: Literal["off", "tokens", "text"]
    context_tokens: int | None
    max_output_tokens: int | None
    engine_fields: EngineFieldRules
    has_objectives: bool
    """Whether callers can name objectives, which have priorities."""
    has_rewrites: bool
    """Whether rules in Kubernetes replace the model names of requests."""
    allows_background: bool
    answers_as_asked: bool
    response_caching: ResponseCaching | None
    spills_when_late: bool
    price: TokenPrices
    timeouts: Timeouts
    fairness: Fairness | None
    """Rules by which teams share the workers of the model, or None if there are no teams."""
    release: ReleasePolicy
    fleet: FleetSpec
    retry: RetrySpec
    zone: str | None
    """Zone in which the gateway runs, or None if it is unknown."""
    zone_penalty_s: float
    """Seconds added to the predicted cost of a worker in a different zone than the gateway."""
    fallbacks_from: Hashable
    """Comparison key for the settings from which fallbacks are built."""
    build_fallbacks: Callable[[Fallbacks | None, TokenTimes], Fallbacks] = field(compare=False)

    @property
    def needs_events(self) -> bool:
        """Whether routing needs the KV events of the workers."""
        return STRATEGIES[self.strategy].needs_events or self.strategy_header

    @property
    def base(self) -> str:
        """Name of the base model that the workers load."""
        return self.upstream_model if self.adapter is None else self.adapter.base

    @property
    def tokens_from(self) -> Hashable:
        """Comparison key for everything that determines how prompts are tokenized."""
        adapter = None if self.adapter is None else self.adapter.name
        return self.tokenizer, self.upstream_model, self.base, adapter

    @property
    def dispatched_by(self) -> Hashable:
        """Comparison key for everything that determines how requests wait for workers."""
        return self.strategy, self.needs_events, self.fairness, self.disaggregation

    def zone_penalty_of(self, worker: WorkerSpec) -> float:
        """Return the extra cost in seconds of a request to the zone of *worker*, or 0 if a zone is unknown."""
        return self.zone_penalty_s if self.zone and worker.zone and worker.zone != self.zone else 0.0


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """Models, routes and rules that the gateway should serve."""

    models: tuple[ModelSpec, ...]
    route_names: tuple[tuple[str, tuple[str, ...]], ...]
    """Name of each route with the aliases of the route."""
    build_routes: Callable[[random.Random, RouteTable | None], RouteTable | None]
    adapter_timeouts: AdapterTimeouts
    health: HealthRules
    set_fallback_rates: Callable[[], None]
