"""Ratio of two measured quantities over several rounds, with its confidence interval."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_STUDENT: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""Quantiles of 97.5 % of Student's t-distribution, for 1 to 30 degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Geometric mean of the ratios of all rounds, with its confidence interval of 95 %."""

    mean: float
    lowest: float
    """Lower end of the interval."""
    highest: float
    """Upper end of the interval."""
    rounds: int

    @classmethod
    def of(cls, ratios: Iterable[float]) -> "Ratio":
        """Return the mean of *ratios*, one of each round. With one round, the interval has no limits.

        Raises:
            ValueError: if there is no ratio, or one of them is not above 0.
        """
        logs = [math.log(ratio) for ratio in ratios]
        if not logs:
            raise ValueError("a ratio needs at least one round")
        mean, half = statistics.fmean(logs), math.inf
        if len(logs) > 1:
            quantile = _STUDENT[min(len(logs) - 1, len(_STUDENT)) - 1]
            half = quantile * statistics.stdev(logs) / math.sqrt(len(logs))
        return cls(math.exp(mean), math.exp(mean - half), math.exp(mean + half), len(logs))

    @property
    def uncertainty(self) -> float:
        """Half of the interval, as a share of the mean."""
        return self.highest / self.mean - 1

    def __str__(self) -> str:
        return f"{self.mean:.3f} ({self.lowest:.3f} – {self.highest:.3f})"
