"""Durations of an engine's work, used by both timing models."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Timing:
    """Speed of one simulated GPU. The default values were used for all published replay results."""

    prefill_tokens_per_s: float = 10_000.0
    """Uncached prompt tokens per second while no request decodes."""
    prefill_fixed_s: float = 0.010
    """Fixed seconds of each prefill, independent of its length."""
    prefill_slowdown: float = 0.004
    """Slowdown of prefills by each running decode. The prefill rate is divided by 1 + prefill_slowdown * decodes."""
    tpot_s: float = 0.012
    """Seconds per output token for a request that decodes alone."""
    tpot_slope_s: float = 0.0004
    """Additional seconds per output token for each other running decode."""

    def __post_init__(self) -> None:
        if not self.prefill_tokens_per_s > 0:
            raise ValueError(f"prefill_tokens_per_s must be above 0, got {self.prefill_tokens_per_s}")
        for name in ("prefill_fixed_s", "prefill_slowdown", "tpot_s", "tpot_slope_s"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")

    def at_speed(self, factor: float) -> "Timing":
        """Return the timing of a GPU that prefills and decodes *factor* times as fast as the GPU with this timing."""
        return replace(
            self,
            prefill_tokens_per_s=self.prefill_tokens_per_s * factor,
            prefill_fixed_s=self.prefill_fixed_s / factor,
            tpot_s=self.tpot_s / factor,
            tpot_slope_s=self.tpot_slope_s / factor,
        )

    def compute_s(self, uncached_tokens: int, decodes: int) -> float:
        """Return the seconds to compute *uncached_tokens* beside *decodes* running decodes, without the fixed cost."""
        return uncached_tokens * (1 + self.prefill_slowdown * decodes) / self.prefill_tokens_per_s

    def decode_s(self, others: int) -> float:
        """Return the seconds per output token of a request that runs beside *others* other decodes."""
        return self.tpot_s + self.tpot_slope_s * others
