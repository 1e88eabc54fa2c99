"""Metrics of vLLM (vllm/v1/metrics/loggers.py), and the routes that report vLLM's state."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from engine_model.engine import EngineLoad
from simulator.bodies import BodyReader
from simulator.event_publisher import EventPublisher
from simulator.event_sockets import PUB_HWM
from simulator.exchange import HttpExchange
from simulator.exposition import counter, gauge
from simulator.faults import Faults
from simulator.generation import GenerationService
from simulator.routes import RouteTable
from simulator.sleep import Sleep, SleepState
from simulator.sse import Json

VLLM_VERSION = "0.33.0"
"""vLLM release whose wire format is simulated."""

_SLEEP_STATES: tuple[SleepState, ...] = ("awake", "weights_offloaded", "discard_all")


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmMetrics:
    model: str
    cache_config: Mapping[str, str]
    sleep_state: Callable[[], SleepState]
    old_names: bool = False
    """Whether to report cache usage as ``vllm:gpu_cache_usage_perc`` and no sleep state, as up to version 0.10.2."""
    rank: int = 0
    """Number of the data-parallel rank, which is the label ``engine`` of the metrics."""
    ttft: ClassVar[str] = "vllm:time_to_first_token_seconds"
    finished: ClassVar[str | None] = "vllm:request_success"

    @property
    def labels(self) -> Mapping[str, str]:
        return {"model_name": self.model, **self._engine}

    @property
    def _engine(self) -> Mapping[str, str]:
        return {"engine": str(self.rank)}

    def families(self, load: EngineLoad) -> Iterator[Metric]:
        usage = "vllm:gpu_cache_usage_perc" if self.old_names else "vllm:kv_cache_usage_perc"
        gauges = {
            "vllm:num_requests_running": ("Number of running requests.", load.running),
            "vllm:num_requests_waiting": ("Number of waiting requests.", load.waiting),
            usage: ("Share of the KV cache blocks that are in use, 0 to 1.", load.kv_usage),
        }
        counters = {
            "vllm:prefix_cache_queries": ("Number of tokens looked up in the prefix cache.", load.prefix_query_tokens),
            "vllm:prefix_cache_hits": ("Number of prompt tokens found in the prefix cache.", load.prefix_hit_tokens),
            "vllm:prompt_tokens": ("Number of prompt tokens whose prefill has ended.", load.prompt_tokens),
            "vllm:generation_tokens": ("Output tokens.", load.generation_tokens),
            "vllm:num_preemptions": ("Number of requests that lost their cache blocks.", load.preemptions),
        }
        for name, (text, value) in gauges.items():
            yield gauge(name, text, value, self.labels)
        for name, (text, total) in counters.items():
            yield counter(name, text, total, self.labels)
        yield gauge(
            "vllm:cache_config_info",
            "Configuration of the KV cache, as labels.",
            1,
            {**self.cache_config, **self._engine},
        )
        if not self.old_names:
            yield self._sleep_family()

    def _sleep_family(self) -> Metric:
        family = GaugeMetricFamily(
            "vllm:engine_sleep_state",
            "1 for the current sleep state of the engine.",
            labels=(*self.labels, "sleep_state"),
        )
        for state in _SLEEP_STATES:
            family.add_metric((*self.labels.values(), state), float(state == self.sleep_state()))
        return family


class VllmStatus:
    """Status routes of a vLLM worker. *started_at* is in Unix seconds."""

    def __init__(
        self,
        *,
        reader: BodyReader,
        generation: GenerationService,
        faults: Faults,
        sleep: Sleep,
        publishers: Sequence[EventPublisher],
        started_at: float,
    ) -> None:
        self._reader = reader
        self._generation = generation
        self._faults = faults
        self._sleep = sleep
        self._publishers = publishers
        self._started_at = started_at

    def routes(self) -> RouteTable:
        return {
            "/v1/models": {"GET": self._models},
            "/health": {"GET": self._health},
            "/ping": {"GET": self._health, "POST": self._health},
            "/version": {"GET": self._version},
            "/load": {"GET": self._load},
            "/kv_event_sources": {"GET": self._kv_event_sources},
            "/sleep": {"POST": self._sleep.sleep},
            "/wake_up": {"POST": self._sleep.wake_up},
            "/is_sleeping": {"GET": self._sleep.show},
        }

    async def _models(self, exchange: HttpExchange) -> None:
        served = (self._reader.model, *self._reader.adapters)
        await exchange.reply_json({"object": "list", "data": [self._card(name) for name in served]})

    def _card(self, name: str) -> Json:
        is_base = name == self._reader.model
        return {
            "id": name,
            "object": "model",
            "created": int(self._started_at),
            "owned_by": "vllm",
            "root": name,
            "parent": None if is_base else self._reader.model,
            "max_model_len": self._reader.context_tokens if is_base else None,
            "permission": [],
        }

    async def _health(self, exchange: HttpExchange) -> None:
        await exchange.reply(503 if self._faults.is_engine_dead else 200, b"", b"")

    async def _version(self, exchange: HttpExchange) -> None:
        await exchange.reply_json({"version": VLLM_VERSION})

    async def _load(self, exchange: HttpExchange) -> None:
        await exchange.reply_json({"server_load": self._generation.in_flight})

    async def _kv_event_sources(self, exchange: HttpExchange) -> None:
        """Send the KV event sources by data-parallel rank. The answer is empty if no events are published."""
        await exchange.reply_json({str(rank): _event_source(each) for rank, each in enumerate(self._publishers)})


def _event_source(publisher: EventPublisher) -> Json:
    """Return the KVEventsConfig that a publisher uses (vllm/config/kv_events.py)."""
    return {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": publisher.sockets.endpoint,
        "replay_endpoint": publisher.sockets.replay_endpoint,
        "buffer_steps": publisher.options.buffer_steps,
        "hwm": PUB_HWM,
        "max_queue_size": 100_000,
        "topic": publisher.options.topic,
    }
