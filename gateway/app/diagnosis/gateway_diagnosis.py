"""Facts about the running gateway for a diagnosis. Only data that the gateway already has are read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Protocol

from cache_index import WorkerId
from cache_index.confirmed import Confirmed
from cache_index.event import Tier
from gateway.api.admin_v1.gateway_facts import (
    CheckFacts,
    FallbackFacts,
    GatewayFacts,
    ModelFacts,
    StoreFacts,
    StreamFacts,
    WorkerFacts,
)
from gateway.app.diagnosis.team_facts import team_facts
from gateway.app.start_checks import Examination
from gateway.app.tenancy import Tenancy
from gateway.backends.fallbacks.canary import CanaryRules
from gateway.models.model import Model
from gateway.models.registry import Models
from gateway.models.worker_gauges import WorkerReading
from gateway.telemetry.traffic_counters import ModelTraffic, TrafficCounters, WorkerTraffic
from gateway.workers.event_subscriptions import EventSubscriptions
from gateway.workers.kv_events.counters import StreamCounters
from routing.worker import Worker


class Checks(Protocol):
    """Interface of the results of start checks; see `gateway.app.start_checks.StartChecks`."""

    def examination(self, model: str, worker: WorkerId) -> Examination | None: ...


@dataclass(frozen=True, slots=True)
class GatewayDiagnosis:
    """Diagnosis of the running gateway from its parts. *checks* is None if the start checks are disabled."""

    models: Models
    streams: EventSubscriptions
    confirmed: Confirmed
    checks: Checks | None
    traffic: TrafficCounters
    tenancy: Tenancy
    canary_rules: Callable[[], CanaryRules]
    open_mode: Callable[[], str]
    clock: Callable[[], float]
    wall_clock: Callable[[], float]

    def facts(self) -> GatewayFacts:
        """Return the current facts about the gateway. O(models + workers + teams + keys)."""
        tenancy, now = self.tenancy, self.wall_clock()
        directory = tenancy.directory
        counters = self.streams.counters()
        return GatewayFacts(
            time=now,
            version=version("warmgate"),
            open_mode=self.open_mode() if tenancy.is_open and not directory.teams else None,
            models=tuple(self._model(model, counters) for model in self.models),
            teams=team_facts(directory.teams.values(), directory.keys, now=now),
            store=self._store(),
        )

    def _store(self) -> StoreFacts:
        status = self.tenancy.store_status()
        if not status:
            return StoreFacts()
        return StoreFacts(
            kind=self.tenancy.store_kind,
            state=status["state"],
            fault=status.get("fault"),
            dropped_entries=self.tenancy.stores.quota.dropped_entries,
        )

    def _model(self, model: Model, counters: dict[WorkerId, StreamCounters]) -> ModelFacts:
        traffic = self.traffic.of(model.name)
        prompts = model.exact_prompts
        local = None if prompts is None else prompts.local
        return ModelFacts(
            name=model.name,
            strategy=model.strategy,
            not_ready=model.why_not_ready(),
            uses_events=model.follows,
            is_tokenizer_missing=local is not None and not local.is_loading and local.tokenizer is None,
            workers=tuple(self._workers(model, traffic, counters)),
            requests=len(traffic.short),
            short_prompts=sum(traffic.short),
            prompt_tokens=traffic.prompt_tokens,
            cached_tokens=traffic.cached_tokens,
            fallbacks=tuple(self._fallbacks(model)),
        )

    def _workers(
        self, model: Model, traffic: ModelTraffic, counters: dict[WorkerId, StreamCounters]
    ) -> Iterator[WorkerFacts]:
        now = self.clock()
        for reading in model.readings(now):
            worker = model.fleet.worker(WorkerId(reading.worker))
            of_worker = traffic.workers.get(worker.id) or WorkerTraffic()
            yield self._worker(model, worker, reading, traffic=of_worker, stream=counters.get(worker.id), now=now)

    def _worker(
        self,
        model: Model,
        worker: Worker,
        reading: WorkerReading,
        *,
        traffic: WorkerTraffic,
        stream: StreamCounters | None,
        now: float,
    ) -> WorkerFacts:
        reported, capacity, error = reading.reported, worker.engine_capacity, worker.speed.ttft_error
        return WorkerFacts(
            id=worker.id,
            state=worker.why_not_ready or "up",
            role=worker.role,
            engine=None if reported is None else reported.engine,
            prefix_caching=None if reported is None else reported.prefix_caching,
            block_size=None if capacity is None else capacity[1],
            capacity_blocks=None if capacity is None else capacity[0],
            event_block_size=self.confirmed.block_size(worker.id),
            held_blocks=None if stream is None else self.confirmed.held_in(worker.id, Tier.GPU),
            shared_blocks=self.confirmed.held_in(worker.id, Tier.SHARED),
            stream=None if stream is None else _stream(stream, has_replay=self.streams.has_replay(worker.id)),
            check=self._check(model.name, worker.id),
            hit_accuracy=worker.accuracy.value,
            ttft_error=error.absolute if error.is_known else None,
            ttft_bias=error.bias,
            hit_alarm=worker.accuracy.is_unreliable,
            requests=traffic.requests,
            backlog_s=reading.values["backlog_seconds"],
            streams=len(traffic.at_once),
            streams_at_once=sum(traffic.at_once),
            followed_s=now - worker.joined_at,
        )

    def _check(self, model: str, worker: WorkerId) -> CheckFacts | None:
        found = None if self.checks is None else self.checks.examination(model, worker)
        if found is None:
            return None
        block_hash = None if found.block_hash is None else f"{found.block_hash:016x}"
        return CheckFacts(verdict=found.verdict, differing=tuple(sorted(found.differing)), block_hash=block_hash)

    def _fallbacks(self, model: Model) -> Iterator[FallbackFacts]:
        rules, now = self.canary_rules(), self.clock()
        for fallback in model.fallbacks.in_order:
            if fallback.has_canary:
                checked = fallback.target.checked
                yield FallbackFacts(
                    id=fallback.id,
                    is_legacy=fallback.target.is_legacy,
                    is_ok=None if checked is None else checked.ok,
                    age_s=None if checked is None else now - checked.at,
                    every_s=rules.every_s,
                )


def _stream(counters: StreamCounters, *, has_replay: bool | None) -> StreamFacts:
    return StreamFacts(
        state=counters.trust,
        doubt=counters.doubt,
        has_replay=has_replay,
        batches=counters.batches,
        lost_batches=counters.lost_batches,
        undecodable_batches=counters.undecodable,
        stored_blocks=counters.blocks["stored"],
        removed_blocks=counters.blocks["removed"],
        resets=counters.events["cleared"] + counters.restarts + counters.rebuilds,
        has_other_groups=bool(sum(counters.ignored.values())),
        lag_s=counters.lag_s,
    )
