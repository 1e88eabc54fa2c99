"""A straight line through recent samples: how seconds grow with tokens, or with running requests."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    x: float
    y: float
    weight: float = 1.0


class LinearFit:
    """Least squares for y = intercept + slope * x, in which a sample counts *memory* times less with each that follows.

    *prior* speaks until samples outweigh it, and goes on to hold the slope where all samples have the same x.
    Both coefficients are never negative. O(1) per call.
    """

    def __init__(self, *prior: Sample, memory: float = 0.97) -> None:
        self._prior = prior
        self._memory = memory
        self._n = self._x = self._y = self._xx = self._xy = 0.0
        self.intercept = 0.0
        self.slope = 0.0
        self._solve()

    def learn(self, x: float, y: float) -> None:
        memory = self._memory
        self._n = self._n * memory + 1
        self._x = self._x * memory + x
        self._y = self._y * memory + y
        self._xx = self._xx * memory + x * x
        self._xy = self._xy * memory + x * y
        self._solve()

    def predict(self, x: float) -> float:
        return self.intercept + self.slope * x

    def _solve(self) -> None:
        n = self._n + sum(s.weight for s in self._prior)
        x = self._x + sum(s.weight * s.x for s in self._prior)
        y = self._y + sum(s.weight * s.y for s in self._prior)
        xx = self._xx + sum(s.weight * s.x * s.x for s in self._prior)
        xy = self._xy + sum(s.weight * s.x * s.y for s in self._prior)
        spread = n * xx - x * x
        self.slope = max(0.0, (n * xy - x * y) / spread)
        self.intercept = max(0.0, (y - self.slope * x) / n)
