"""Speed of workers: linear fits shared by a fleet, and the pace of each worker relative to the fleet.

A measurement on one worker improves the predictions for all workers at once. If each worker had separate rates, the
first measured worker could look faster than the others and get all requests.
"""

import math
from typing import Final

from routing.learning.fit import LinearFit, Sample
from routing.learning.load_rates import LoadRates, LoadTier, TierPrices
from routing.learning.prefill_model import PrefillModel
from routing.loads import Loads

PACE_MEMORY: Final = 0.95
"""Factor by which each sample of a worker's pace reduces the weight of earlier samples."""
PACE_PRIOR: Final = 3.0
"""Weight of the assumption that a worker is as fast as its fleet. A sample has the weight 1."""
PACE_OUTLIER: Final = 4.0
"""Factor between a sample and the present pace at which the sample is capped."""
SHORTEST_S: Final = 1e-6
"""Shortest measured time in seconds that can be compared with a prediction."""


class Gap:
    """Average recent seconds between two tokens of a stream, weighted by the length of the streams."""

    def __init__(self, *, memory: float = 0.95) -> None:
        """Create an average in which each new stream multiplies the weight of earlier streams by *memory*."""
        self._memory = memory
        self._elapsed_s = 0.0
        self._gaps = 0.0

    @property
    def usual_s(self) -> float | None:
        """Typical seconds between two tokens of a stream, or None if no stream was measured."""
        return self._elapsed_s / self._gaps if self._gaps else None

    def learn(self, elapsed_s: float, gaps: int) -> None:
        """Learn from a stream whose *gaps* gaps between tokens took *elapsed_s* seconds in total."""
        self._elapsed_s = self._elapsed_s * self._memory + elapsed_s
        self._gaps = self._gaps * self._memory + gaps


class Rates:
    """Learned speed of a fleet: prefill seconds by uncached tokens and running requests, seconds per loaded token, and
    seconds per generated token by running requests.
    """

    def __init__(self, *, prefill_tokens_per_s: float, tier_prices: TierPrices = TierPrices()) -> None:  # noqa: B008
        self.prefill = PrefillModel(tokens_per_s=prefill_tokens_per_s)
        # 20 ms a token alone, 0.5 ms more for each other request: a mid-size model on one GPU.
        self.decode = LinearFit(Sample(0.0, 0.02), Sample(32.0, 0.036, 0.2))
        self.loads = LoadRates(tier_prices)
        self.gap = Gap()
        self.are_learned = False
        """Whether any prefill was measured. Until then, the rates come from the settings alone."""

    @property
    def prefill_s_per_token(self) -> float:
        """Predicted seconds per uncached token while no request generates tokens."""
        return self.prefill.s_per_token

    def prefill_s(self, uncached_tokens: float, decodes: float = 0.0) -> float:
        """Return the predicted seconds of a prefill that starts at once, beside *decodes* generating requests."""
        return self.prefill.predict(uncached_tokens, decodes)

    def load_s(self, loads: Loads) -> float:
        """Return the predicted seconds of *loads*."""
        return self.loads.load_s(loads, self.prefill_s_per_token)

    def load_tokens_per_s(self) -> dict[LoadTier, float]:
        """Return the learned speed of loads in tokens per second, by tier."""
        return self.loads.tokens_per_s(self.prefill_s_per_token)

    def learn_load(self, loads: Loads, measured_s: float) -> None:
        self.loads.learn(loads, measured_s, self.prefill_s_per_token)

    def learn_prefill(self, uncached_tokens: float, measured_s: float, decodes: float = 0.0) -> None:
        self.are_learned = True
        self.prefill.learn(uncached_tokens, decodes, measured_s)


class RelativePace:
    """Time of one worker's work relative to the time that its fleet takes for the same work.

    `ratio` is the geometric mean of recent samples, for predicted times. `factor` is for comparing workers. The factor
    is exactly 1 while the ratio is within *band*. Workers of one kind then have exactly equal costs, and ties between
    them are broken at random. Otherwise noise would decide, and the worker with the luckiest measurements would get all
    requests.
    """

    def __init__(self, *, band: float = 1.2) -> None:
        self._band = band
        self._logarithms = 0.0
        self._samples = PACE_PRIOR
        self.ratio = 1.0
        self.factor = 1.0

    def learn(self, *, measured_s: float, fleet_s: float) -> None:
        """Learn from work that took *measured_s* seconds when the fleet's rates predicted *fleet_s* seconds."""
        sample = max(SHORTEST_S, measured_s) / max(SHORTEST_S, fleet_s)
        sample = min(self.ratio * PACE_OUTLIER, max(self.ratio / PACE_OUTLIER, sample))
        self._logarithms = self._logarithms * PACE_MEMORY + math.log(sample)
        self._samples = self._samples * PACE_MEMORY + 1.0
        self.ratio = math.exp(self._logarithms / self._samples)
        self.factor = 1.0 if 1.0 / self._band <= self.ratio <= self._band else self.ratio
