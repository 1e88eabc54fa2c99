"""Options of a simulated worker."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from engine_model.blocks import BlockPool, BlockSink
from engine_model.chunked import ChunkedEngine
from engine_model.engine import Engine
from engine_model.fifo import FifoEngine
from engine_model.host_tier import HostSink, HostTier, LoadTiming, PullTiming
from engine_model.timing import Timing
from simulator.defects import NO_DEFECTS, Defects
from simulator.errors import Dialect
from simulator.event_options import EventOptions
from simulator.roles import HalfOptions, RoleName


@dataclass(frozen=True, slots=True)
class SimulatorOptions:
    """Options of a simulated worker. Raises `ValueError` with the option name if a value is invalid."""

    host: str = "127.0.0.1"
    port: int = 18101
    """HTTP port of the worker, or 0 to let the system choose a port."""
    model: str = "tiny"
    blocks: int = 2048
    block_size: int = 16
    """Tokens per block."""
    prefill_tokens_per_s: float = 10_000.0
    host_blocks: int = 0
    """Number of KV blocks in the host tier of each rank, or 0 for no host tier."""
    load_tokens_per_s: float = LoadTiming().tokens_per_s
    """Tokens per second that are loaded from the host tier to the GPU."""
    load_ms: float = 0.0
    """Fixed milliseconds of each load from the host tier, independent of its length."""
    pull_port: int | None = None
    """Port at which other workers pull KV blocks from the host tier, 0 for a free port, or None for no pulls."""
    pull_tokens_per_s: float = PullTiming().tokens_per_s
    """Tokens per second that are pulled from the host tier of another worker."""
    pull_ms: float = PullTiming().latency_s * 1000
    """Fixed milliseconds of each pull."""
    tpot_ms: float = 12.0
    """Milliseconds per output token for a request that runs alone."""
    speed: float = 1.0
    """Number of engine seconds per real second. Both 0 and infinity mean "as fast as possible"."""
    timing: Literal["chunked", "fifo"] = "chunked"
    max_model_len: int | None = None
    """Maximum number of prompt and answer tokens together, by default the number of tokens that fit into the cache."""
    max_num_batched_tokens: int = 2048
    """Maximum number of tokens in one engine step of the chunked timing model."""
    max_num_seqs: int = 256
    """Maximum number of concurrently running requests in the chunked timing model."""
    stream_interval: int = 1
    """Number of output tokens per stream event. The first token is always sent alone, as in vLLM."""
    dialect: Dialect = "vllm"
    """Inference engine whose routes, errors and metrics are imitated."""
    old_metrics: bool = False
    """Whether to use the metrics of vLLM 0.10.2 and earlier."""
    health_delay_s: float = 1.0
    """Minimum duration of a request to SGLang's /health in seconds. Other routes are not delayed."""
    shutdown_timeout_s: float = 0.0
    """Seconds for which running requests continue after SIGTERM, while new requests are aborted."""
    lora_modules: Sequence[str] = ()
    """Names of the LoRA adapters, which clients request like models. Adapters share no blocks with the base model."""
    lora_load_ms: float | None = None
    """Milliseconds to load an adapter at runtime, or None to disable runtime loading and unloading."""
    enable_scale_out: bool = False
    """Whether the render routes of vLLM are enabled."""
    ranks: int = 1
    """Number of data-parallel ranks, or of workers behind a Dynamo frontend. Each has its own engine and cache."""
    role: RoleName = "both"
    """Role of the worker: "prefill" or "decode" for one part of each request, or "both" for whole requests."""
    half: HalfOptions = field(default_factory=HalfOptions)
    """Options for prefill and decode workers."""
    kv_events: EventOptions | None = None
    """Options for publishing KV events, or None to publish no KV events."""
    defects: Defects = NO_DEFECTS

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65536:
            raise ValueError(f"port must be 0 to 65535, got {self.port}")
        self._check_numbers()
        if self.timing not in ("chunked", "fifo"):
            raise ValueError(f"timing must be chunked or fifo, got {self.timing}")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError(f"max_num_batched_tokens must be at least max_num_seqs, got {self.max_num_batched_tokens}")
        if self.max_model_len is not None and not 2 <= self.max_model_len <= self.blocks * self.block_size:
            raise ValueError(f"max_model_len must be between 2 and blocks * block_size, got {self.max_model_len}")
        if self.dialect not in ("vllm", "sglang", "dynamo"):
            raise ValueError(f"dialect must be vllm, sglang or dynamo, got {self.dialect}")
        self._check_dialect()

    def _check_dialect(self) -> None:
        if self.role not in ("both", "prefill", "decode"):
            raise ValueError(f"role must be both, prefill or decode, got {self.role}")
        if self.role != "both" and (self.dialect == "dynamo" or self.ranks != 1):
            raise ValueError(f"role must be both if the dialect is dynamo or there are several ranks, got {self.role}")
        if self.host_blocks and self.role != "both":
            raise ValueError(f"host_blocks requires role both, got {self.role}")
        if self.pull_port is not None and not 0 <= self.pull_port < 65536:
            raise ValueError(f"pull_port must be 0 to 65535, got {self.pull_port}")
        if self.pull_port is not None and (not self.host_blocks or self.ranks != 1):
            raise ValueError("pull_port requires host_blocks and a single rank")
        for name in ("old_metrics", "enable_scale_out", "host_blocks"):
            if getattr(self, name) and self.dialect != "vllm":
                raise ValueError(f"{name} requires dialect vllm, got {self.dialect}")
        if self.dialect == "dynamo" and self.kv_events is not None and self.kv_events.format != "map":
            raise ValueError(f"kv_events.format must be map if the dialect is dynamo, got {self.kv_events.format}")
        if self.dialect == "dynamo" and (self.lora_modules or self.lora_load_ms is not None):
            name = "lora_modules" if self.lora_modules else "lora_load_ms"
            raise ValueError(f"{name} requires dialect vllm or sglang, got dynamo")
        if len({self.model, *self.lora_modules}) <= len(self.lora_modules):
            raise ValueError(f"lora_modules must have unique names, got {', '.join(self.lora_modules)}")

    def _check_numbers(self) -> None:
        for name in ("blocks", "block_size", "max_num_seqs", "stream_interval", "ranks"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.host_blocks < 0:
            raise ValueError(f"host_blocks must not be negative, got {self.host_blocks}")
        for name in ("load_ms", "pull_ms"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be finite and not negative, got {getattr(self, name)}")
        for name in ("prefill_tokens_per_s", "load_tokens_per_s", "pull_tokens_per_s", "tpot_ms"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}")
        if not self.speed >= 0:
            raise ValueError(f"speed must not be negative, got {self.speed}")
        if self.lora_load_ms is not None and not 0 <= self.lora_load_ms < math.inf:
            raise ValueError(f"lora_load_ms must be finite and not negative, got {self.lora_load_ms}")
        for name in ("health_delay_s", "shutdown_timeout_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be finite and not negative, got {getattr(self, name)}")

    @property
    def context_tokens(self) -> int:
        """Maximum length of an accepted sequence in tokens."""
        return self.max_model_len if self.max_model_len is not None else self.blocks * self.block_size

    def build_pool(self, sink: BlockSink | None = None, host_sink: HostSink | None = None) -> BlockPool:
        timing = LoadTiming(self.load_tokens_per_s, self.load_ms / 1000)
        host = HostTier(self.host_blocks, timing, sink=host_sink) if self.host_blocks else None
        return BlockPool(self.blocks, self.block_size, sink=sink, host=host)

    @property
    def pull_timing(self) -> PullTiming:
        return PullTiming(self.pull_ms / 1000, self.pull_tokens_per_s)

    def build_engine(self, pool: BlockPool) -> Engine:
        timing = Timing(prefill_tokens_per_s=self.prefill_tokens_per_s, tpot_s=self.tpot_ms / 1000)
        if self.timing == "fifo":
            return FifoEngine(pool, timing, token_events=True)
        return ChunkedEngine(
            pool, timing, max_num_batched_tokens=self.max_num_batched_tokens, max_num_seqs=self.max_num_seqs
        )
