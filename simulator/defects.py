"""Defects that a worker has from its start: mistakes of its configuration, and reports that are not true."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Defects:
    """Defects of one worker, by default no defect. Raises `ValueError`, naming the option, for an invalid value."""

    enable_prefix_caching: bool = True
    """False: no block is cached, as with vLLM's ``--no-enable-prefix-caching``."""
    hash_seed: int = 0
    """Seed of block hashes, as PYTHONHASHSEED is in vLLM: workers with different seeds give equal blocks different
    hashes."""
    cached_tokens_factor: float = 1.0
    """Factor between the cached tokens that an answer reports and the true ones."""
    reported_blocks: int | None = None
    """Size of the KV cache in the metrics; ``None``: the true one."""
    reported_block_size: int | None = None
    """Tokens per block in the metrics; ``None``: the true number."""
    clock_skew_s: float = 0.0
    """Seconds by which the worker's clock is ahead."""
    buffer_streams: bool = False
    """A stream leaves as a whole when it ends, as behind a proxy that buffers."""

    def __post_init__(self) -> None:
        for name in ("reported_blocks", "reported_block_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if not 0 <= self.cached_tokens_factor < math.inf:
            raise ValueError(f"cached_tokens_factor must be finite and not negative, got {self.cached_tokens_factor}")
        if not math.isfinite(self.clock_skew_s):
            raise ValueError(f"clock_skew_s must be finite, got {self.clock_skew_s}")

    def reported_cached_tokens(self, cached_tokens: int, prompt_tokens: int) -> int:
        """Return the cached tokens that an answer reports; never more than the prompt has."""
        return min(prompt_tokens, int(cached_tokens * self.cached_tokens_factor))


NO_DEFECTS = Defects()
