"""What an engine tells of itself at ``/metrics``: the size of its cache, and when its life began."""

import math
import re
from dataclasses import dataclass

_CACHE_CONFIG = re.compile(r"^vllm:cache_config_info\{(?P<labels>.*)\}", re.MULTILINE)
_LABEL = re.compile(r'(?P<name>\w+)="(?P<value>(?:[^"\\]|\\.)*)"')
_COUNT = re.compile(r"[1-9][0-9]{0,11}")
_STARTED = re.compile(r"^process_start_time_seconds(?:\{.*\})? (?P<value>\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """None stands for what the engine does not tell."""

    blocks: int | None = None
    block_size: int | None = None
    """Tokens per block."""
    started_at: float | None = None
    """Seconds since 1970, by the engine's clock: another value is another life, with an empty cache."""

    @classmethod
    def parse(cls, exposition: str) -> "EngineFacts":
        """Read vLLM's metrics (names of vllm/v1/metrics/loggers.py); foreign text yields no facts."""
        config = _CACHE_CONFIG.search(exposition)
        labels = {m["name"]: m["value"] for m in _LABEL.finditer(config["labels"])} if config else {}
        started = _STARTED.search(exposition)
        return cls(
            blocks=_positive(labels.get("num_gpu_blocks")),
            block_size=_positive(labels.get("block_size")),
            started_at=_seconds(started["value"]) if started else None,
        )


def _positive(label: str | None) -> int | None:
    """The label as a number; engines write None into it before they know."""
    return int(label) if label is not None and _COUNT.fullmatch(label) else None


def _seconds(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) else None
