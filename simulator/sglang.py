"""Metrics of SGLang (sglang/srt/observability), and the routes that report SGLang's state."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from prometheus_client.metrics_core import Metric

from engine_model.engine import EngineLoad
from simulator.bodies import BodyReader
from simulator.event_publisher import EventPublisher
from simulator.exchange import HttpExchange
from simulator.exposition import counter, gauge
from simulator.faults import Faults
from simulator.routes import RouteTable
from simulator.sse import Json

SGLANG_VERSION = "0.5.23"
"""SGLang release whose wire format is simulated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SglangMetrics:
    model: str
    cache_tokens: int
    """Capacity of the KV cache in tokens."""
    page_size: int
    """Tokens per page."""
    rank: int | None = None
    """Number of the data-parallel rank, or None if there is only one rank. The metrics then have no rank label."""
    ttft: ClassVar[str] = "sglang:time_to_first_token_seconds"
    finished: ClassVar[str | None] = None

    @property
    def labels(self) -> Mapping[str, str]:
        rank = {} if self.rank is None else {"dp_rank": str(self.rank)}
        return {"model_name": self.model, "engine_type": "unified", "tp_rank": "0", "pp_rank": "0", **rank}

    def families(self, load: EngineLoad) -> Iterator[Metric]:
        gauges = {
            "sglang:num_running_reqs": ("Number of running requests.", load.running),
            "sglang:num_queue_reqs": ("Number of waiting requests.", load.waiting),
            "sglang:num_used_tokens": (
                "Number of tokens in the KV cache that are in use.",
                _used_tokens(load, self.cache_tokens),
            ),
            "sglang:max_total_num_tokens": ("Number of tokens that fit into the KV cache.", self.cache_tokens),
            "sglang:full_token_usage": ("Share of the KV cache's tokens that are in use, 0 to 1.", load.kv_usage),
            "sglang:cache_hit_rate": ("Share of prompt tokens found in the KV cache, 0 to 1.", _hit_rate(load)),
            "sglang:page_size": ("Number of tokens in a page of the KV cache.", self.page_size),
        }
        counters = {
            "sglang:prompt_tokens": ("Number of prompt tokens whose prefill has ended.", load.prompt_tokens),
            "sglang:generation_tokens": ("Output tokens.", load.generation_tokens),
            "sglang:cached_tokens": ("Number of prompt tokens found in the KV cache.", load.prefix_hit_tokens),
        }
        for name, (text, value) in gauges.items():
            yield gauge(name, text, value, self.labels)
        for name, (text, total) in counters.items():
            yield counter(name, text, total, self.labels)
        labels = {**self.labels, "mode": "decode"}
        yield counter("sglang:realtime_tokens", "Number of tokens generated so far.", load.generation_tokens, labels)


class SglangStatus:
    """Status routes of a worker. *started_at* is in Unix seconds, and *publisher* belongs to rank 0.

    SGLang's /health generates a token, which takes at least *health_delay_s* because SGLang's loop sleeps for a second
    first.
    """

    def __init__(
        self,
        *,
        reader: BodyReader,
        read_loads: Sequence[Callable[[], EngineLoad]],
        faults: Faults,
        metrics: SglangMetrics,
        max_running_requests: int,
        health_delay_s: float,
        publisher: EventPublisher | None,
        started_at: float,
        halves: Mapping[str, Any],
    ) -> None:
        self._reader = reader
        self._read_loads = read_loads
        self._faults = faults
        self._metrics = metrics
        self._max_running_requests = max_running_requests
        self._health_delay_s = health_delay_s
        self._publisher = publisher
        self._started_at = started_at
        self._halves = halves

    def routes(self) -> RouteTable:
        return {
            "/v1/models": {"GET": self._models},
            "/health": {"GET": self._health},
            "/health_generate": {"GET": self._health},
            "/ready": {"GET": self._ready},
            "/ping": {"GET": self._ready},
            "/server_info": {"GET": self._server_info},
            "/get_server_info": {"GET": self._server_info},
            "/model_info": {"GET": self._model_info},
            "/v1/loads": {"GET": self._loads},
        }

    @property
    def _ready_status(self) -> int:
        return 503 if self._faults.in_force.mode in ("engine_dead", "shutting_down") else 200

    async def _models(self, exchange: HttpExchange) -> None:
        served = (self._reader.model, *self._reader.adapters)
        await exchange.reply_json({"object": "list", "data": [self._card(name) for name in served]})

    def _card(self, name: str) -> Json:
        is_base = name == self._reader.model
        return {
            "id": name,
            "object": "model",
            "created": int(self._started_at),
            "owned_by": "sglang",
            "root": name,
            "parent": None if is_base else self._reader.model,
            "max_model_len": self._reader.context_tokens if is_base else None,
        }

    async def _health(self, exchange: HttpExchange) -> None:
        await asyncio.sleep(self._health_delay_s)
        await exchange.reply(self._ready_status, b"", b"")

    async def _ready(self, exchange: HttpExchange) -> None:
        await exchange.reply(self._ready_status, b"", b"")

    async def _model_info(self, exchange: HttpExchange) -> None:
        await exchange.reply_json({"model_path": self._reader.model, "is_generation": True})

    async def _server_info(self, exchange: HttpExchange) -> None:
        await exchange.reply_json(
            {
                "model_path": self._reader.model,
                "served_model_name": self._reader.model,
                "page_size": self._metrics.page_size,
                "context_length": self._reader.context_tokens,
                "max_total_num_tokens": self._metrics.cache_tokens,
                "dp_size": len(self._read_loads),
                "kv_events": self._kv_events(),
                "internal_states": [{"last_gen_throughput": 0.0}],
                "version": SGLANG_VERSION,
                **self._halves,
            }
        )

    def _kv_events(self) -> Json | None:
        """Return the address of the event publisher (sglang/srt/runtime_context.py, describe_kv_events_publisher)."""
        if self._publisher is None:
            return None
        sockets = self._publisher.sockets
        replay = {} if sockets.replay_port is None else {"replay_endpoint_port_base": sockets.replay_port}
        return {
            "publisher": "zmq",
            "endpoint_host": sockets.reported_host,
            "endpoint_port_base": sockets.port,
            "topic": self._publisher.options.topic,
            "block_size": self._metrics.page_size,
            "dp_size": len(self._read_loads),
            **replay,
        }

    async def _loads(self, exchange: HttpExchange) -> None:
        loads = [self._rank_load(rank, read()) for rank, read in enumerate(self._read_loads)]
        await exchange.reply_json({"version": SGLANG_VERSION, "dp_rank_count": len(loads), "loads": loads})

    def _rank_load(self, rank: int, load: EngineLoad) -> dict[str, Any]:
        tokens = self._metrics.cache_tokens
        return {
            "dp_rank": rank,
            "num_running_reqs": load.running,
            "num_waiting_reqs": load.waiting,
            "num_used_tokens": _used_tokens(load, tokens),
            "max_total_num_tokens": tokens,
            "max_running_requests": self._max_running_requests,
            "token_usage": load.kv_usage,
            "gen_throughput": 0.0,
            "cache_hit_rate": _hit_rate(load),
        }


def _used_tokens(load: EngineLoad, cache_tokens: int) -> int:
    return round(load.kv_usage * cache_tokens)


def _hit_rate(load: EngineLoad) -> float:
    return load.prefix_hit_tokens / load.prefix_query_tokens if load.prefix_query_tokens else 0.0
