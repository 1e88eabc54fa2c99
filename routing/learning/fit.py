"""Linear fit of recent samples, such as seconds against tokens or seconds against running requests."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    x: float
    y: float
    weight: float = 1.0


RESIDUE = 0.001
"""Share of the prior estimate that never fades. It determines the slope if all samples have the same x."""


class LinearFit:
    """Least-squares fit of y = intercept + slope * x. Each new sample multiplies the weight of older samples by
    *memory*.

    *prior* holds the initial samples, which fade like other samples. The slope and the intercept are never negative.
    Each call takes constant time.
    """

    def __init__(self, *prior: Sample, memory: float = 0.97) -> None:
        self._prior = prior
        self._memory = memory
        self._n = self._x = self._y = self._xx = self._xy = 0.0
        self.intercept = 0.0
        self.slope = 0.0
        self._add_prior(1.0)
        self._solve()

    def learn(self, x: float, y: float) -> None:
        self._fade(self._memory)
        self._add(x, y, 1.0)
        self._add_prior(RESIDUE * (1.0 - self._memory))
        self._solve()

    def predict(self, x: float) -> float:
        return self.intercept + self.slope * x

    def _fade(self, share: float) -> None:
        self._n *= share
        self._x *= share
        self._y *= share
        self._xx *= share
        self._xy *= share

    def _add(self, x: float, y: float, weight: float) -> None:
        self._n += weight
        self._x += weight * x
        self._y += weight * y
        self._xx += weight * x * x
        self._xy += weight * x * y

    def _add_prior(self, share: float) -> None:
        for sample in self._prior:
            self._add(sample.x, sample.y, share * sample.weight)

    def _solve(self) -> None:
        """Find the line of best fit whose slope and intercept are not negative."""
        self.slope = max(0.0, (self._n * self._xy - self._x * self._y) / (self._n * self._xx - self._x * self._x))
        self.intercept = (self._y - self.slope * self._x) / self._n
        if self.intercept < 0.0:
            self.intercept = 0.0
            self.slope = max(0.0, self._xy / self._xx)
