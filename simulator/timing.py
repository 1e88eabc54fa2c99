"""Durations of an engine's work, which both timing models share."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Rates of one simulated GPU; the defaults are those of every published replay figure."""

    prefill_tokens_per_s: float = 10_000.0
    """Uncached prompt tokens per second while nothing decodes."""
    prefill_fixed_s: float = 0.010
    """Cost of starting a prefill, whatever its length."""
    prefill_slowdown: float = 0.004
    """Each running decode divides the rate once more: rate / (1 + prefill_slowdown * decodes)."""
    tpot_s: float = 0.012
    """Time per output token of a request that decodes alone."""
    tpot_slope_s: float = 0.0004
    """Time that each other running decode adds."""

    def __post_init__(self) -> None:
        if not self.prefill_tokens_per_s > 0:
            raise ValueError(f"prefill_tokens_per_s must be above 0, got {self.prefill_tokens_per_s}")
        for name in ("prefill_fixed_s", "prefill_slowdown", "tpot_s", "tpot_slope_s"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")

    def compute_s(self, uncached_tokens: int, decodes: int) -> float:
        """Seconds to compute *uncached_tokens* of prompts beside *decodes* running decodes, without the fixed cost."""
        return uncached_tokens * (1 + self.prefill_slowdown * decodes) / self.prefill_tokens_per_s

    def decode_s(self, others: int) -> float:
        """Seconds per output token of a request beside *others* running decodes."""
        return self.tpot_s + self.tpot_slope_s * others
