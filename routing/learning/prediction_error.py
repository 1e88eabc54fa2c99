"""Error of predicted times, relative to the measured times."""

from typing import Final

MEMORY: Final = 0.98
"""Factor by which each sample reduces the weight of earlier samples. About the last 50 samples count."""
LARGEST: Final = 4.0
"""Largest relative error of a sample that counts, so that one answer that was held up does not decide."""
SHORTEST_S: Final = 0.001
"""Shortest measured time in seconds that errors refer to."""
ENOUGH: Final = 20.0
"""Number of recent samples from which the error says something about the predictions."""


class PredictionError:
    """Mean relative error and bias of recent predictions."""

    __slots__ = ("_absolute", "_samples", "_with_sign")

    def __init__(self) -> None:
        self._samples = 0.0
        self._absolute = 0.0
        self._with_sign = 0.0

    def learn(self, *, predicted_s: float, measured_s: float) -> None:
        """Learn from something that was predicted to take *predicted_s* and took *measured_s* seconds."""
        measured_s = max(SHORTEST_S, measured_s)
        error = min(LARGEST, (predicted_s - measured_s) / measured_s)
        self._samples = self._samples * MEMORY + 1.0
        self._absolute = self._absolute * MEMORY + abs(error)
        self._with_sign = self._with_sign * MEMORY + error

    @property
    def is_known(self) -> bool:
        """Whether there are enough samples."""
        return self._samples >= ENOUGH

    @property
    def absolute(self) -> float:
        """Mean absolute error as a share of the measured time, or 0 without samples."""
        return self._absolute / self._samples if self._samples else 0.0

    @property
    def bias(self) -> float:
        """Mean error as a share of the measured time. It is positive if predicted times are too long."""
        return self._with_sign / self._samples if self._samples else 0.0
