"""Assembly of a simulated worker. Only this module knows which metrics and routes each imitated engine has."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine_model.engine import EngineLoad
from simulator.adapters import AdapterLoading, Adapters
from simulator.api import SimulatorApp, control_routes, inference_endpoints, inference_routes, text_routes
from simulator.bodies import BodyReader
from simulator.connection import Connection
from simulator.control import Control
from simulator.dynamo import DynamoMetrics, DynamoStatus
from simulator.event_control import EventControl
from simulator.exchange import Handler
from simulator.exposition import Exposition, MetricNames
from simulator.faults import Faults
from simulator.freeze import Freeze
from simulator.generation import GenerationService
from simulator.journal import Journal
from simulator.options import SimulatorOptions
from simulator.ranks import Ranks
from simulator.responses import ResponsesEndpoint
from simulator.roles import Role
from simulator.routes import RouteTable
from simulator.scale_out import render_routes
from simulator.sglang import SglangMetrics, SglangStatus
from simulator.sleep import Sleep
from simulator.sse import Json
from simulator.vllm import VllmMetrics, VllmStatus


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of a simulated worker that the server needs."""

    app: SimulatorApp
    faults: Faults
    freeze: Freeze
    generation: GenerationService


def assemble(
    options: SimulatorOptions,
    *,
    ranks: Ranks,
    open_connections: set[Connection],
    unix: Callable[[], float],
    role: Role | None = None,
) -> Parts:
    """Build the parts of a simulated worker. *unix* returns the seconds since 1970."""
    faults, freeze, journal = Faults(), Freeze(), Journal()
    sleep, started_at = Sleep(ranks=ranks), unix()
    adapters = Adapters(options.lora_modules, model=options.model)
    reader = BodyReader(options.model, options.context_tokens, adapters)
    (first, read_first), *others = _metrics(options, sleep, ranks)
    exposition = Exposition(first, read_first, started_at=started_at, others=others)
    generation = GenerationService(
        model=options.model,
        block_size=options.block_size,
        ranks=ranks,
        faults=faults,
        sleep=sleep,
        journal=journal,
        exposition=exposition,
        unix=unix,
        stream_interval=options.stream_interval,
        role=role,
        defects=options.defects,
    )
    control = Control(
        faults=faults,
        freeze=freeze,
        journal=journal,
        ranks=ranks,
        generation=generation,
        open_connections=open_connections,
    )
    status = _Status(options, reader, faults, ranks, started_at, {} if role is None else role.reported)
    responses = ResponsesEndpoint(reader)
    endpoints = inference_endpoints(options.dialect, reader, responses)
    app = SimulatorApp(
        dialect=options.dialect,
        inference=inference_routes(endpoints, generation),
        others={
            **text_routes(options.dialect, reader, responses),
            **status.routes(generation, sleep),
            "/metrics": {"GET": exposition.show},
            **(render_routes(endpoints, is_enabled=options.enable_scale_out) if options.dialect == "vllm" else {}),
            **_adapter_routes(adapters, options),
            **control_routes(control),
            **_event_routes(ranks),
        },
        faults=faults,
        freeze=freeze,
    )
    return Parts(app, faults, freeze, generation)


@dataclass(frozen=True, slots=True)
class _Status:
    """Routes that report the status of a worker, for each imitated engine."""

    options: SimulatorOptions
    reader: BodyReader
    faults: Faults
    ranks: Ranks
    started_at: float
    halves: Json
    """Description of the worker's role, prefill or decode."""

    def routes(self, generation: GenerationService, sleep: Sleep) -> RouteTable:
        publishers = [rank.publisher for rank in self.ranks if rank.publisher is not None]
        if self.options.dialect == "sglang":
            return SglangStatus(
                reader=self.reader,
                read_loads=[rank.engine.load for rank in self.ranks],
                faults=self.faults,
                metrics=_sglang_metrics(self.options, None),
                max_running_requests=self.options.max_num_seqs,
                health_delay_s=self.options.health_delay_s,
                publisher=next(iter(publishers), None),
                started_at=self.started_at,
                halves=self.halves,
            ).routes()
        if self.options.dialect == "dynamo":
            return DynamoStatus(
                reader=self.reader,
                faults=self.faults,
                instance_ids=self.ranks.instances,
                started_at=self.started_at,
            ).routes()
        return VllmStatus(
            reader=self.reader,
            generation=generation,
            faults=self.faults,
            sleep=sleep,
            publishers=publishers,
            started_at=self.started_at,
        ).routes()


def _metrics(
    options: SimulatorOptions, sleep: Sleep, ranks: Ranks
) -> list[tuple[MetricNames, Callable[[], EngineLoad]]]:
    """Return the metrics of each data-parallel rank. A frontend reports the metrics of all ranks behind it."""
    if options.dialect == "dynamo":

        def busy() -> dict[int, float]:
            return {name: rank.engine.load().kv_usage for name, rank in zip(ranks.instances, ranks, strict=True)}

        names = DynamoMetrics(model=options.model, blocks=options.blocks, block_size=options.block_size, busy=busy)
        return [(names, ranks.load)]
    if options.dialect == "sglang":
        several = len(ranks) > 1
        return [(_sglang_metrics(options, each.number if several else None), each.engine.load) for each in ranks]
    return [(_vllm_metrics(options, sleep, each.number), each.engine.load) for each in ranks]


def _vllm_metrics(options: SimulatorOptions, sleep: Sleep, rank: int) -> VllmMetrics:
    cache_config = {
        "block_size": str(options.defects.reported_block_size or options.block_size),
        "num_gpu_blocks": str(options.defects.reported_blocks or options.blocks),
        "enable_prefix_caching": str(options.defects.enable_prefix_caching),
    }
    return VllmMetrics(
        model=options.model,
        cache_config=cache_config,
        sleep_state=lambda: sleep.state,
        old_names=options.old_metrics,
        rank=rank,
    )


def _sglang_metrics(options: SimulatorOptions, rank: int | None) -> SglangMetrics:
    return SglangMetrics(
        model=options.model,
        cache_tokens=(options.defects.reported_blocks or options.blocks) * options.block_size,
        page_size=options.defects.reported_block_size or options.block_size,
        rank=rank,
    )


def _adapter_routes(adapters: Adapters, options: SimulatorOptions) -> RouteTable:
    if options.lora_load_ms is None:
        return {}
    return AdapterLoading(adapters, load_s=options.lora_load_ms / 1000, dialect=options.dialect).routes()


def _event_routes(ranks: Ranks) -> RouteTable:
    routes: dict[str, Mapping[str, Handler]] = {}
    for rank in ranks:
        if rank.publisher is not None:
            control = EventControl(publisher=rank.publisher, pool=rank.pool, engine=rank.engine, rank=rank.number)
            routes |= control.routes()
    return routes
