"""Values from which models are built: equal where nothing has to be built again."""

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
from gateway.models.routes.routes import RouteTable
from gateway.workers.health import HealthRules
from gateway.workers.worker_spec import WorkerSpec
from routing.cache_hits import TierPrices
from routing.queueing.fair_queue import Fairness
from routing.queueing.release_policy import ReleasePolicy
from routing.strategies import STRATEGIES


@dataclass(frozen=True, slots=True)
class DisaggregationSpec:
    """Way of prompts from prefill to decode workers."""

    flow: Literal["nixl", "sglang"]
    min_uncached_tokens: int | None
    replace_loopback: bool


@dataclass(frozen=True, slots=True)
class BreakerSpec:
    """Limits at which a failing worker gets no requests."""

    failures: int
    window_s: float
    open_s: float
    error_share: float
    min_requests: int


@dataclass(frozen=True, slots=True)
class FleetSpec:
    """Rules for the workers of a model, fixed from its first build on."""

    tier_prices: TierPrices
    block_bytes: int
    prefill_tokens_per_s: float
    lease_s: float
    breaker: BreakerSpec


@dataclass(frozen=True, slots=True)
class RetrySpec:
    """Share of requests that may be sent a second time, and how many a second may be in any case."""

    budget_share: float
    budget_floor_per_s: float


@dataclass(frozen=True, slots=True)
class TokenPrices:
    """US dollars per million tokens, or for an hour of a worker."""

    input_usd: float
    cached_input_usd: float | None
    output_usd: float
    gpu_hour_usd: float | None


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model with all of its workers."""

    name: str
    aliases: tuple[str, ...]
    upstream_model: str
    workers: tuple[WorkerSpec, ...]
    has_fleet: bool
    """Whether workers may ever serve it; if not, only its fallbacks do."""
    strategy: str
    strategy_header: bool
    session_header: str
    adapter: Adapter | None
    tokenizer: TokenizerSpec
    disaggregation: DisaggregationSpec | None
    continuation: Literal["off", "tokens", "text"]
    context_tokens: int | None
    max_output_tokens: int | None
    allowed_engine_fields: tuple[str, ...]
    allows_background: bool
    answers_as_asked: bool
    spills_when_late: bool
    price: TokenPrices
    timeouts: Timeouts
    fairness: Fairness | None
    """Rules by which teams share its workers; None: there are no teams."""
    release: ReleasePolicy
    fleet: FleetSpec
    retry: RetrySpec
    zone: str | None
    """Zone of the gateway."""
    zone_penalty_s: float
    """Cost of a worker in another zone."""
    fallbacks_from: Hashable
    """Equal where the fallbacks are built from the same settings."""
    build_fallbacks: Callable[[Fallbacks | None, TokenTimes], Fallbacks] = field(compare=False)

    @property
    def needs_events(self) -> bool:
        """Whether the KV events of its workers matter."""
        return STRATEGIES[self.strategy].needs_events or self.strategy_header

    @property
    def base(self) -> str:
        """The model that its workers load."""
        return self.upstream_model if self.adapter is None else self.adapter.base

    @property
    def tokens_from(self) -> Hashable:
        """Equal where exact tokens are made the same way."""
        adapter = None if self.adapter is None else self.adapter.name
        return self.tokenizer, self.upstream_model, self.base, adapter

    @property
    def dispatched_by(self) -> Hashable:
        """Equal where requests wait for workers in the same way."""
        return self.strategy, self.needs_events, self.fairness, self.disaggregation

    def zone_penalty_of(self, worker: WorkerSpec) -> float:
        """Return what a request to *worker* costs more than one in this zone; 0 where a zone is not known."""
        return self.zone_penalty_s if self.zone and worker.zone and worker.zone != self.zone else 0.0


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """Everything that is to be served."""

    models: tuple[ModelSpec, ...]
    route_names: tuple[tuple[str, tuple[str, ...]], ...]
    """Names and aliases of routes."""
    build_routes: Callable[[random.Random, RouteTable | None], RouteTable | None]
    adapter_timeouts: AdapterTimeouts
    health: HealthRules
    set_fallback_rates: Callable[[], None]
