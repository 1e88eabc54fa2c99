"""Conversion of settings to the specifications of models, routes and adapters."""

import hashlib
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gateway.app.fallbacks import FallbackFactory, TokenTimes, timeouts_of
from gateway.app.model_spec import (
    BreakerSpec,
    DisaggregationSpec,
    FleetSpec,
    ModelSpec,
    PullSpec,
    RetrySpec,
    ServingPlan,
    TokenPrices,
)
from gateway.app.tokenizers import TokenizerSpec
from gateway.backends.fallbacks.fallbacks import Fallbacks
from gateway.models.adapters.adapter import Adapter
from gateway.models.adapters.registry import AdapterTimeouts
from gateway.models.engine_field_rules import EngineFieldRules
from gateway.models.response_caching import ResponseCaching
from gateway.models.routes.route import Route
from gateway.models.routes.routes import RouteTable
from gateway.models.routes.rule import RouteRule
from gateway.settings import AdaptersSettings, ModelSettings, RouteSettings, Settings, TokenizerSettings
from gateway.workers.health import HealthRules
from gateway.workers.worker_spec import ModelWorkers, WorkerSpec
from routing.learning.load_rates import TierPrices
from routing.queueing.fair_queue import Fairness
from routing.queueing.release_policy import ReleasePolicy
from routing.variants import Variants


def serving_plan(settings: Settings, models: Sequence[ModelWorkers], fallback_factory: FallbackFactory) -> ServingPlan:
    """Return the serving plan for *settings* with the workers of *models*."""
    workers = {model.name: model.workers for model in models}
    return ServingPlan(
        tuple(model_spec(model, workers[model.name], settings, fallback_factory) for model in settings.models),
        tuple((route.name, route.aliases) for route in settings.routes),
        partial(routes_of, settings.routes),
        adapter_timeouts(settings.adapters),
        health_rules(settings),
        partial(fallback_factory.attend, settings),
    )


def model_spec(
    model: ModelSettings, workers: tuple[WorkerSpec, ...], settings: Settings, fallback_factory: FallbackFactory
) -> ModelSpec:
    """Return the specification of *model* with all of its *workers*."""

    def build_fallbacks(former: Fallbacks | None, token_times: TokenTimes) -> Fallbacks:
        return fallback_factory.make(model, settings, former=former, token_times=token_times)

    price, held = model.price, settings.routing
    return ModelSpec(
        name=model.name,
        aliases=model.aliases,
        upstream_model=model.upstream_model,
        workers=workers,
        has_fleet=model.has_fleet,
        strategy=model.strategy,
        strategy_header=model.strategy_header,
        session_header=model.session_header,
        adapter=adapter_of(model),
        tokenizer=tokenizer_spec(model.tokenizer),
        disaggregation=_disaggregation(model),
        pull=_pull(model),
        continuation=model.continuation,
        context_tokens=model.context_tokens,
        max_output_tokens=model.max_output_tokens,
        engine_fields=EngineFieldRules(frozenset(model.allowed_engine_fields), model.engine_priority),
        has_objectives=has_objectives(model),
        has_rewrites=has_rewrites(model),
        allows_background=model.allow_background,
        answers_as_asked=model.answer_model == "asked",
        response_caching=response_caching_of(model, settings),
        spills_when_late=model.spill.when_late,
        price=TokenPrices(
            price.input_usd, price.cached_input_usd, price.output_usd, price.gpu_hour_usd, price.batch_discount
        ),
        timeouts=timeouts_of(settings),
        fairness=fairness_of(settings, model),
        release=ReleasePolicy(
            depth_s=settings.advanced.release_depth_s, max_wait_s=held.max_wait_s, max_waiting=held.max_waiting
        ),
        fleet=_fleet(settings),
        retry=RetrySpec(settings.retry.budget_share, settings.retry.budget_floor_per_s),
        zone=settings.server.zone,
        zone_penalty_s=settings.advanced.zone_penalty_s,
        fallbacks_from=(model.fallbacks, model.spill, model.price, settings.bedrock, settings.timeouts),
        build_fallbacks=build_fallbacks,
    )


def adapter_of(model: ModelSettings) -> Adapter | None:
    """Return the LoRA adapter that *model* stands for, or None for a base model."""
    name, adapter = model.adapter_name, model.adapter
    if adapter is None or name is None:
        return None
    return Adapter(name, adapter.of, adapter.path, adapter.load_on_demand, adapter.max_per_worker)


def response_caching_of(model: ModelSettings, settings: Settings) -> ResponseCaching | None:
    """Return the rules by which answers of *model* are kept, or None. Any change of the model or of a guardrail gives
    another identity. Workers, their number and prices do not change answers.
    """
    if model.response_cache == "off":
        return None
    others = {"workers", "workers_file", "service", "pods", "inference_pool", "dns", "price", "spill", "fallbacks"}
    identity = hashlib.sha256(model.model_dump_json(exclude=others).encode())
    for guardrail in settings.guardrails:
        identity.update(guardrail.model_dump_json().encode())
    return ResponseCaching(identity.digest(), needs_request=model.response_cache == "on_request")


def adapter_timeouts(adapters: AdaptersSettings) -> AdapterTimeouts:
    return AdapterTimeouts(load_s=adapters.load_s, load_timeout_s=adapters.load_timeout_s, retry_s=adapters.retry_s)


def tokenizer_spec(tokenizer: TokenizerSettings) -> TokenizerSpec:
    path = None if tokenizer.path is None else Path(tokenizer.path)
    return TokenizerSpec(tokenizer.source, path, tokenizer.budget_s)


def has_objectives(model: ModelSettings) -> bool:
    """Return whether callers of *model* can name the objectives of its InferencePool."""
    return model.inference_pool is not None and model.inference_pool.objectives


def has_rewrites(model: ModelSettings) -> bool:
    """Return whether rules of the InferencePool of *model* replace the model names of requests."""
    return model.inference_pool is not None and model.inference_pool.rewrites


def fairness_of(settings: Settings, model: ModelSettings) -> Fairness | None:
    """Return the rules by which teams share workers, or None if there are neither teams nor priorities."""
    queue = settings.queue
    if settings.teams or settings.store.url is not None or settings.admin.keys:
        return Fairness(queue.max_waiting_per_team, queue.low_share, queue.starvation_s)
    if not has_objectives(model):
        return None
    return Fairness(settings.routing.max_waiting, queue.low_share, queue.starvation_s)


def health_rules(settings: Settings) -> HealthRules:
    """Return the rules for worker health checks."""
    health = settings.health
    return HealthRules(
        path=health.path,
        interval_s=health.interval_s,
        timeout_s=health.timeout_s,
        failures_to_down=health.failures_to_down,
        successes_to_up=health.successes_to_up,
        metrics_interval_s=health.metrics_interval_s,
    )


def routes_of(settings: Sequence[RouteSettings], rng: random.Random, former: RouteTable | None) -> RouteTable | None:
    """Return the routing table of the configured routes, or None without routes.

    *rng* sets the start of weighted choices.
    """
    if not settings and former is None:
        return None
    return RouteTable([_route(each, rng.random()) for each in settings], former)


def _route(settings: RouteSettings, start: float) -> Route:
    key = settings.name if settings.salt is None else settings.salt
    return Route(
        settings.name,
        first=settings.to[0].model,
        variants=Variants({each.model: each.weight for each in settings.to}, key=key, start=start),
        rules=[
            RouteRule(
                rule.name or rule.model,
                rule.model,
                prompt_tokens_from=rule.prompt_tokens_from,
                prompt_tokens_below=rule.prompt_tokens_below,
                max_tokens_from=rule.max_tokens_from,
                asks=frozenset(rule.requires),
                teams=None if rule.teams is None else frozenset(rule.teams),
            )
            for rule in settings.rules
        ],
        sticky=settings.sticky,
        passes_on=settings.on_unavailable == "next",
        counts_exactly=settings.count == "exact",
        checks_variants=settings.variant_permits,
    )


def _disaggregation(model: ModelSettings) -> DisaggregationSpec | None:
    given = model.disaggregation
    return None if given is None else DisaggregationSpec(given.flow, given.min_uncached_tokens, given.replace_loopback)


def _pull(model: ModelSettings) -> PullSpec | None:
    given = model.pull
    return None if given is None else PullSpec(given.port, given.host_tokens, given.after_requests)


def _fleet(settings: Settings) -> FleetSpec:
    tuning, breaker = settings.advanced, settings.breaker
    return FleetSpec(
        TierPrices(
            cpu=tuning.cpu_tier_price,
            disk=tuning.disk_tier_price,
            shared=tuning.shared_tier_price,
            peer=tuning.peer_tier_price,
            peer_latency_s=tuning.pull_latency_s,
        ),
        block_bytes=settings.index.block_bytes,
        prefill_tokens_per_s=tuning.initial_prefill_tokens_per_s,
        lease_s=settings.routing.lease_s,
        breaker=BreakerSpec(
            failures=breaker.failures,
            window_s=breaker.window_s,
            open_s=breaker.open_s,
            error_share=breaker.error_share,
            min_requests=breaker.min_requests,
        ),
    )
