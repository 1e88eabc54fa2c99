"""Defects that a simulated worker has from the start, such as configuration mistakes and wrong reports."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Defects:
    """Defects of one simulated worker, none by default. Raises `ValueError` with the name of an invalid option."""

    enable_prefix_caching: bool = True
    """Whether the prefix cache is enabled. False has the effect of vLLM's ``--no-enable-prefix-caching``."""
    hash_seed: int = 0
    """Seed of the block hashes, like PYTHONHASHSEED in vLLM. Different seeds give equal blocks different hashes."""
    cached_tokens_factor: float = 1.0
    """Ratio between the number of cached tokens that an answer reports and the real number."""
    reported_blocks: int | None = None
    """Number of KV cache blocks in the metrics, or None to report the real number."""
    reported_block_size: int | None = None
    """Number of tokens per block in the metrics, or None to report the real number."""
    clock_skew_s: float = 0.0
    """Seconds by which the worker's clock is ahead."""
    buffer_streams: bool = False
    """Whether a stream is sent all at once at its end, as by a buffering proxy."""

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
        """Return the number of cached tokens that an answer reports, at most *prompt_tokens*."""
        return min(prompt_tokens, int(cached_tokens * self.cached_tokens_factor))


NO_DEFECTS = Defects()
