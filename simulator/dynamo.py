"""Metrics of Dynamo's frontend, and the routes that report its state."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from engine_model.engine import EngineLoad
from simulator.bodies import BodyReader
from simulator.errors import ApiError
from simulator.exchange import HttpExchange
from simulator.exposition import counter, gauge
from simulator.faults import Faults
from simulator.routes import RouteTable


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamoMetrics:
    model: str
    blocks: int
    block_size: int
    """Tokens per block."""
    busy: Callable[[], Mapping[int, float]] = dict
    """Function that returns the share of used cache blocks for each worker behind the frontend, by instance id."""
    ttft: ClassVar[str] = "dynamo_frontend_time_to_first_token_seconds"
    finished: ClassVar[str | None] = None

    @property
    def labels(self) -> Mapping[str, str]:
        return {"model": self.model}

    def families(self, load: EngineLoad) -> Iterator[Metric]:
        gauges = {
            "dynamo_frontend_inflight_requests": ("Number of requests in progress.", load.running + load.waiting),
            "dynamo_frontend_queued_requests": ("Number of requests that have not produced a token yet.", load.waiting),
            "dynamo_frontend_model_total_kv_blocks": ("Number of KV cache blocks of a worker.", self.blocks),
            "dynamo_frontend_model_kv_cache_block_size": ("Number of tokens in a KV cache block.", self.block_size),
        }
        for name, (text, value) in gauges.items():
            yield gauge(name, text, value, self.labels)
        yield counter("dynamo_frontend_output_tokens", "Output tokens.", load.generation_tokens, self.labels)
        yield self._active_blocks()

    def _active_blocks(self) -> Metric:
        """Return the number of active cache blocks as counted by Dynamo's own router."""
        labels = ("worker_id", "dp_rank", "worker_type")
        name = "dynamo_frontend_worker_active_decode_blocks"
        family = GaugeMetricFamily(name, "Number of KV cache blocks that a worker has in use.", labels=labels)
        for instance, usage in self.busy().items():
            family.add_metric((str(instance), "0", "decode"), round(usage * self.blocks))
        return family


class DynamoStatus:
    """State of Dynamo's frontend. *instance_ids* identify the workers behind it. *started_at* is in Unix seconds."""

    def __init__(self, *, reader: BodyReader, faults: Faults, instance_ids: Sequence[int], started_at: float) -> None:
        self._reader = reader
        self._faults = faults
        self._instance_ids = instance_ids
        self._started_at = started_at

    def routes(self) -> RouteTable:
        return {
            "/v1/models": {"GET": self._models},
            "/v1/models/{id}": {"GET": self._model},
            "/v1/models/{id}/ready": {"GET": self._model_ready},
            "/health": {"GET": self._health},
            "/live": {"GET": self._live},
        }

    def _card(self) -> dict[str, object]:
        return {
            "id": self._reader.model,
            "object": "model",
            "created": int(self._started_at),
            "owned_by": "nvidia",
            "context_window": self._reader.context_tokens,
        }

    async def _models(self, exchange: HttpExchange) -> None:
        await exchange.reply_json({"object": "list", "data": [self._card()]})

    async def _model(self, exchange: HttpExchange) -> None:
        self._reader.check_model(exchange.named_in_path)
        await exchange.reply_json(self._card())

    async def _model_ready(self, exchange: HttpExchange) -> None:
        self._reader.check_model(exchange.named_in_path)
        if self._faults.is_engine_dead:
            raise ApiError(503, f"Model {self._reader.model} is not ready")
        await exchange.reply_json({"id": self._reader.model, "ready": True})

    async def _health(self, exchange: HttpExchange) -> None:
        if self._faults.is_engine_dead:
            raise ApiError(503, "No endpoints available")
        instances = [
            {
                "instance_id": instance_id,
                "namespace": "dynamo",
                "component": "backend",
                "endpoint": "generate",
                "transport": {"tcp": f"127.0.0.1:38519/{instance_id:x}/dynamo/backend/generate"},
            }
            for instance_id in self._instance_ids
        ]
        endpoints = ["dyn://dynamo.backend.generate"]
        await exchange.reply_json({"status": "healthy", "endpoints": endpoints, "instances": instances})

    async def _live(self, exchange: HttpExchange) -> None:
        await exchange.reply_json({"status": "live", "message": "Service is live"})
