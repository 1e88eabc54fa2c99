"""Parser for an inference engine's ``/metrics`` page, in the format of vLLM, SGLang or a Dynamo frontend.

A page may be large. It is received in pieces, and only the few relevant lines are parsed. One vLLM rank (80 kB) takes 1
ms. For 64 ranks (5 MB in total), no piece of 64 kB blocks the event loop longer than that.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

_LINES = 640
"""Maximum number of lines parsed per page: ten for each data-parallel rank, for 64 ranks."""
_LINE_BYTES = 16 * 1024
"""Maximum length of a line in bytes. ``vllm:cache_config_info`` has a label for each configuration field, 3 kB in
total.
"""

_STARTED = "process_start_time_seconds"
_COUNT = re.compile(r"[1-9][0-9]{0,11}")
_RANK = re.compile(r"[0-9]{1,4}")
_TRUTHS = {"True": True, "False": False}


class EngineKind(StrEnum):
    """Inference engine that a worker runs."""

    VLLM = "vllm"
    SGLANG = "sglang"
    DYNAMO = "dynamo"


_PREFIXES = {b"vllm:": EngineKind.VLLM, b"sglang:": EngineKind.SGLANG, b"dynamo_frontend_": EngineKind.DYNAMO}
_READ = (*_PREFIXES, _STARTED.encode())
_NAMES = frozenset(
    {
        _STARTED.encode(),
        b"vllm:num_requests_running",
        b"vllm:num_requests_waiting",
        b"vllm:kv_cache_usage_perc",
        b"vllm:gpu_cache_usage_perc",
        b"vllm:engine_sleep_state",
        b"vllm:cache_config_info",
        b"vllm:lora_requests_info",
        b"vllm:generation_tokens_total",
        b"sglang:num_running_reqs",
        b"sglang:num_queue_reqs",
        b"sglang:full_token_usage",
        b"sglang:token_usage",
        b"sglang:max_total_num_tokens",
        b"sglang:page_size",
        b"sglang:realtime_tokens_total",
        b"dynamo_frontend_inflight_requests",
        b"dynamo_frontend_queued_requests",
        b"dynamo_frontend_model_total_kv_blocks",
        b"dynamo_frontend_model_kv_cache_block_size",
        b"dynamo_frontend_worker_active_decode_blocks",
        b"dynamo_frontend_output_tokens_total",
    }
)


@dataclass(frozen=True, slots=True)
class EngineReading:
    """State of an engine at one moment, summed or averaged over its data-parallel ranks. Unknown values are None."""

    engine: EngineKind | None = None
    running: float | None = None
    """Number of requests that the engine is processing."""
    waiting: float | None = None
    """Number of requests in the engine's queue."""
    kv_usage: float | None = None
    """Fraction of the KV cache that is in use, from 0 to 1, averaged over the ranks."""
    is_asleep: bool | None = None
    cache_tokens: int | None = None
    """Capacity of the KV cache in tokens."""
    block_size: int | None = None
    """Number of tokens per KV cache block."""
    prefix_caching: bool | None = None
    """Whether the engine keeps the cache blocks of prompts for later requests."""
    started_at: float | None = None
    """Start time of the engine's process in Unix seconds. A new value means a restart with an empty cache."""
    generated: float | None = None
    """Number of output tokens generated so far, including tokens that have not been sent yet."""
    adapters: tuple[str, ...] = ()
    """LoRA adapters of running and waiting requests. Further adapters can be loaded."""
    places: "Mapping[tuple[str | None, int], EngineReading]" = field(default_factory=dict)
    """Readings of individual ranks if there are several, by Dynamo instance and data-parallel rank. The instance is
    None for other engines, and for values that a frontend reports for all its workers.
    """

    def of(self, instance: str | None, rank: int | None) -> "EngineReading":
        """Return the reading of one rank, or a reading with only the start time if the rank has no metrics."""
        found = self.places.get((instance, rank or 0)) or self.places.get((None, rank or 0))
        return found or EngineReading(self.engine, started_at=self.started_at)


@dataclass(frozen=True, slots=True)
class Observation:
    """Reading of an engine's metrics, and the number of seconds for which it counts as current."""

    reading: EngineReading
    read_at: float
    """Time at which the reading arrived, in monotonic seconds of the gateway."""
    kept_s: float
    asked_at: float = -math.inf
    """Monotonic time in seconds at which the reading was requested, or minus infinity if unknown. The reading is not
    older.
    """

    def age_s(self, now: float) -> float:
        return max(0.0, now - self.read_at)

    def is_stale(self, now: float) -> bool:
        return self.age_s(now) > self.kept_s


class MetricsPage:
    """Incremental parser of a metrics page. Invalid content is ignored."""

    def __init__(self) -> None:
        self._rest = b""
        self._lines_left = _LINES
        self._samples = _Samples()
        self._engine: EngineKind | None = None

    def feed(self, piece: bytes) -> None:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > _LINE_BYTES:
            self._rest = b"#"  # whatever follows on this line is a comment
        for line in lines:
            if line.startswith(_READ):
                self._take(line)

    def reading(self) -> EngineReading | None:
        """Return the reading that was parsed from the page, or None if it has neither engine metrics nor a process
        start time.
        """
        self.feed(b"\n")
        samples = self._samples
        started = samples.all(_STARTED)
        started_at = started[0].value if started else None
        match self._engine:
            case EngineKind.VLLM:
                return _with_ranks(_of_vllm, samples, started_at, "engine")
            case EngineKind.SGLANG:
                return _with_ranks(_of_sglang, samples, started_at, "dp_rank")
            case EngineKind.DYNAMO:
                return _of_dynamo(samples, started_at)
            case None:
                return None if started_at is None else EngineReading(started_at=started_at)

    def _take(self, line: bytes) -> None:
        if self._engine is None:
            self._engine = next((engine for prefix, engine in _PREFIXES.items() if line.startswith(prefix)), None)
        name = line.partition(b"{")[0].partition(b" ")[0]
        if name in _NAMES and len(line) <= _LINE_BYTES and self._lines_left:
            self._lines_left -= 1
            self._samples.add(_parsed(line))


def _parsed(line: bytes) -> list[Sample]:
    """Return the metric samples in one line, or an empty list if the line is malformed."""
    try:
        families: list[Metric] = list(text_string_to_metric_families(line.decode(errors="replace")))
    except (ValueError, IndexError, OverflowError):
        return []
    return [s for family in families for s in family.samples if math.isfinite(s.value) and s.value >= 0]


class _Samples:
    """Finite, non-negative metric samples by metric name.

    A rank that appears twice counts once, because SGLang's tensor-parallel processes may each report the same cache.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, list[Sample]] = {}

    def add(self, samples: Iterable[Sample]) -> None:
        for sample in samples:
            self._by_name.setdefault(sample.name, []).append(sample)

    def all(self, name: str) -> list[Sample]:
        return self._by_name.get(name, [])

    def by_rank(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """Return the largest metric value for each rank, where ranks are identified by *labels*."""
        ranks: dict[tuple[str, ...], float] = {}
        for sample in self.all(name):
            rank = tuple(sample.labels.get(label, "") for label in labels)
            ranks[rank] = max(sample.value, ranks.get(rank, 0.0))
        return ranks

    def split(self, *labels: str) -> "dict[tuple[str, ...], _Samples]":
        """Return the metric samples of each rank, or an empty dictionary if no sample has a rank label. O(samples)."""
        ranks: dict[tuple[str, ...], _Samples] = {}
        for samples in self._by_name.values():
            for sample in samples:
                if labels[0] in sample.labels:
                    rank = tuple(sample.labels.get(label, "") for label in labels)
                    ranks.setdefault(rank, _Samples()).add([sample])
        return ranks

    def total(self, name: str, *labels: str) -> float | None:
        ranks = self.by_rank(name, *labels)
        return sum(ranks.values()) if ranks else None

    def share(self, names: Iterable[str], label: str) -> float | None:
        """Return the mean over the ranks, at most 1, for the first metric in *names* that is present."""
        for name in names:
            ranks = self.by_rank(name, label)
            if ranks:
                return min(1.0, sum(ranks.values()) / len(ranks))
        return None


def _with_ranks(
    read: Callable[[_Samples, float | None], EngineReading], samples: _Samples, started_at: float | None, label: str
) -> EngineReading:
    """Return the reading of all ranks together, with one reading per rank if there are several ranks."""
    ranks = {rank: own for (rank,), own in samples.split(label).items() if _RANK.fullmatch(rank)}
    whole = read(samples, started_at)
    if len(ranks) < 2:
        return whole
    found = {(None, int(rank)): read(own, started_at) for rank, own in ranks.items()}
    # Adapters are reported for all ranks together.
    return replace(whole, places={place: replace(own, adapters=whole.adapters) for place, own in found.items()})


def _of_vllm(samples: _Samples, started_at: float | None) -> EngineReading:
    """Read vLLM's metrics, whose names are in vllm/v1/metrics/loggers.py. The label ``engine`` is the rank."""
    blocks, tokens, block_size, caching = 0, 0, None, None
    for sample in {s.labels.get("engine", ""): s for s in samples.all("vllm:cache_config_info")}.values():
        block_size = _positive(sample.labels.get("block_size")) or block_size
        blocks = _positive(sample.labels.get("num_gpu_blocks")) or 0
        tokens += blocks * (block_size or 0)
        caching = _TRUTHS.get(sample.labels.get("enable_prefix_caching", ""))
    return EngineReading(
        EngineKind.VLLM,
        running=samples.total("vllm:num_requests_running", "engine"),
        waiting=samples.total("vllm:num_requests_waiting", "engine"),
        # The second name is that of versions up to 0.10.
        kv_usage=samples.share(("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"), "engine"),
        is_asleep=_is_asleep(samples.all("vllm:engine_sleep_state")),
        adapters=_adapters(samples.all("vllm:lora_requests_info")),
        generated=samples.total("vllm:generation_tokens_total", "engine"),
        cache_tokens=tokens or None,
        block_size=block_size,
        prefix_caching=caching,
        started_at=started_at,
    )


def _is_asleep(states: list[Sample]) -> bool | None:
    """Return whether any rank is asleep, because the worker is then unreliable. Return None if sleep states are not
    reported.

    One of the states `awake`, `weights_offloaded` and `discard_all` is 1. A paused engine reports 0 for all of them.
    """
    if not states:
        return None
    return any((s.value == 0) if s.labels.get("sleep_state") == "awake" else (s.value > 0) for s in states)


def _of_sglang(samples: _Samples, started_at: float | None) -> EngineReading:
    """Read SGLang's metrics, whose names are in sglang/srt/observability/metrics_collector.py. Ranks with the same
    ``dp_rank`` share a cache.
    """
    tokens = samples.total("sglang:max_total_num_tokens", "dp_rank")
    pages = samples.by_rank("sglang:page_size", "dp_rank")
    return EngineReading(
        EngineKind.SGLANG,
        running=samples.total("sglang:num_running_reqs", "dp_rank"),
        waiting=samples.total("sglang:num_queue_reqs", "dp_rank"),
        # The first is of the cache that prefixes live in, where a model has others beside it.
        kv_usage=samples.share(("sglang:full_token_usage", "sglang:token_usage"), "dp_rank"),
        generated=_decoded(samples.all("sglang:realtime_tokens_total")),
        cache_tokens=int(tokens or 0) or None,
        block_size=int(max(pages.values(), default=0)) or None,
        started_at=started_at,
    )


def _decoded(samples: list[Sample]) -> float | None:
    """Return the generated tokens from a metric that changes at every step. ``sglang:generation_tokens_total`` changes
    only when a request ends.

    Tensor-parallel ranks may count the same tokens several times. This does not matter, because only growth is used.
    """
    counts = [sample.value for sample in samples if sample.labels.get("mode") == "decode"]
    return sum(counts) if counts else None


def _adapters(samples: list[Sample]) -> tuple[str, ...]:
    """Return the adapter names in the labels of the latest sample. The value of a sample is its time, and old samples
    remain on the page.
    """
    last = max(samples, key=lambda sample: sample.value, default=None)
    if last is None:
        return ()
    found = (last.labels.get("running_lora_adapters", ""), last.labels.get("waiting_lora_adapters", ""))
    return tuple(dict.fromkeys(name for names in found for name in names.split(",") if name))


def _of_dynamo(samples: _Samples, started_at: float | None) -> EngineReading:
    """Read the metrics of a Dynamo frontend: the cache size of its workers, and each worker's used blocks.

    The frontend's own router reports these values. With another router, or with several models, the cache size is
    unknown.
    """
    queued = samples.total("dynamo_frontend_queued_requests", "model")
    inside = samples.total("dynamo_frontend_inflight_requests", "model")
    used = samples.by_rank("dynamo_frontend_worker_active_decode_blocks", "worker_id", "dp_rank")
    blocks = samples.by_rank("dynamo_frontend_model_total_kv_blocks", "model")
    sizes = samples.by_rank("dynamo_frontend_model_kv_cache_block_size", "model")
    block_size = int(next(iter(sizes.values()))) if len(sizes) == 1 else 0
    of_one = int(next(iter(blocks.values()))) if len(blocks) == 1 else 0
    room = of_one * max(1, len(used))
    each = EngineReading(
        EngineKind.DYNAMO,
        cache_tokens=of_one * block_size or None,
        block_size=block_size or None,
        started_at=started_at,
    )
    return EngineReading(
        EngineKind.DYNAMO,
        running=None if inside is None else max(0.0, inside - (queued or 0.0)),
        waiting=queued,
        kv_usage=min(1.0, sum(used.values()) / room) if room and used else None,
        generated=samples.total("dynamo_frontend_output_tokens_total", "model"),
        cache_tokens=room * block_size or None,
        block_size=block_size or None,
        started_at=started_at,
        places=({} if each.cache_tokens is None else {(None, 0): each})
        | {
            (worker, int(rank)): replace(each, kv_usage=min(1.0, active / of_one) if of_one else None)
            for (worker, rank), active in used.items()
            if _RANK.fullmatch(rank)
        },
    )


def _positive(label: str | None) -> int | None:
    """Return the value of a label as a positive integer, or None if the engine has not set the label yet."""
    return int(label) if label is not None and _COUNT.fullmatch(label) else None
