"""Where the parts of a worker meet: the one place that knows which dialect has which metrics and routes."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

from gateway.simulator.api import SimulatorApp, control_routes, inference_endpoints, inference_routes, text_routes
from gateway.simulator.blocks import BlockPool
from gateway.simulator.bodies import BodyReader
from gateway.simulator.connection import Connection
from gateway.simulator.control import Control
from gateway.simulator.dynamo import DynamoMetrics, DynamoStatus
from gateway.simulator.event_control import EventControl
from gateway.simulator.event_publisher import EventPublisher
from gateway.simulator.exposition import Exposition, MetricNames
from gateway.simulator.faults import Faults
from gateway.simulator.freeze import Freeze
from gateway.simulator.generation import GenerationService
from gateway.simulator.journal import Journal
from gateway.simulator.options import SimulatorOptions
from gateway.simulator.realtime import RealtimeEngine
from gateway.simulator.responses import ResponsesEndpoint
from gateway.simulator.routes import RouteTable
from gateway.simulator.scale_out import render_routes
from gateway.simulator.sglang import SglangMetrics, SglangStatus
from gateway.simulator.sleep import Sleep
from gateway.simulator.vllm import VllmMetrics, VllmStatus


@dataclass(frozen=True, slots=True)
class Parts:
    """What a server needs of a worker."""

    app: SimulatorApp
    faults: Faults
    freeze: Freeze
    generation: GenerationService


def assemble(
    options: SimulatorOptions,
    *,
    pool: BlockPool,
    engine: RealtimeEngine,
    publisher: EventPublisher | None,
    open_connections: set[Connection],
    unix: Callable[[], float],
) -> Parts:
    """*publisher* of the pool's events, if there is one; *unix* gives the seconds since 1970."""
    faults, freeze, journal = Faults(), Freeze(), Journal()
    sleep, started_at = Sleep(pool=pool, engine=engine), unix()
    reader = BodyReader(options.model, options.context_tokens, options.lora_modules)
    exposition = Exposition(_metric_names(options, sleep), engine.load, started_at=started_at)
    generation = GenerationService(
        model=options.model,
        block_size=options.block_size,
        engine=engine,
        faults=faults,
        sleep=sleep,
        journal=journal,
        exposition=exposition,
        unix=unix,
        stream_interval=options.stream_interval,
    )
    control = Control(
        faults=faults,
        freeze=freeze,
        journal=journal,
        pool=pool,
        engine=engine,
        generation=generation,
        open_connections=open_connections,
    )
    status = _Status(options, reader, faults, publisher, started_at)
    responses = ResponsesEndpoint(reader)
    endpoints = inference_endpoints(options.dialect, reader, responses)
    app = SimulatorApp(
        dialect=options.dialect,
        inference=inference_routes(endpoints, generation),
        others={
            **text_routes(options.dialect, reader, responses),
            **status.routes(generation, engine, sleep),
            "/metrics": {"GET": exposition.show},
            **(render_routes(endpoints, is_enabled=options.enable_scale_out) if options.dialect == "vllm" else {}),
            **control_routes(control),
            **(EventControl(publisher=publisher, pool=pool, engine=engine).routes() if publisher else {}),
        },
        faults=faults,
        freeze=freeze,
    )
    return Parts(app, faults, freeze, generation)


@dataclass(frozen=True, slots=True)
class _Status:
    """The routes by which a worker of each dialect says how it is."""

    options: SimulatorOptions
    reader: BodyReader
    faults: Faults
    publisher: EventPublisher | None
    started_at: float

    def routes(self, generation: GenerationService, engine: RealtimeEngine, sleep: Sleep) -> RouteTable:
        if self.options.dialect == "sglang":
            return SglangStatus(
                reader=self.reader,
                read_load=engine.load,
                faults=self.faults,
                metrics=_sglang_metrics(self.options),
                max_running_requests=self.options.max_num_seqs,
                health_delay_s=self.options.health_delay_s,
                publisher=self.publisher,
                started_at=self.started_at,
            ).routes()
        if self.options.dialect == "dynamo":
            digest = blake2b(str(self.started_at).encode(), digest_size=8).digest()
            return DynamoStatus(
                reader=self.reader,
                faults=self.faults,
                instance_id=int.from_bytes(digest, "big") | 1 << 63,
                started_at=self.started_at,
            ).routes()
        return VllmStatus(
            reader=self.reader,
            generation=generation,
            faults=self.faults,
            sleep=sleep,
            publisher=self.publisher,
            started_at=self.started_at,
        ).routes()


def _metric_names(options: SimulatorOptions, sleep: Sleep) -> MetricNames:
    if options.dialect == "sglang":
        return _sglang_metrics(options)
    if options.dialect == "dynamo":
        return DynamoMetrics(model=options.model, blocks=options.blocks, block_size=options.block_size)
    cache_config = {
        "block_size": str(options.block_size),
        "num_gpu_blocks": str(options.blocks),
        "enable_prefix_caching": "True",
    }
    return VllmMetrics(
        model=options.model,
        cache_config=cache_config,
        sleep_state=lambda: sleep.state,
        old_names=options.old_metrics,
    )


def _sglang_metrics(options: SimulatorOptions) -> SglangMetrics:
    return SglangMetrics(
        model=options.model, cache_tokens=options.blocks * options.block_size, page_size=options.block_size
    )
