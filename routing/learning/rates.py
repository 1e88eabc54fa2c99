"""Speed of workers: linear fits shared by a fleet, and the pace of each worker relative to the fleet.

A measurement on one worker improves the predictions for all workers at once. If each worker had separate rates, the
first measured worker could look faster than the others and get all requests.
"""

from routing.learning.fit import LinearFit, Sample
from routing.learning.load_rates import LoadRates, LoadTier, TierPrices
from routing.loads import Loads

PREFILL_OVERHEAD_S = 0.01
"""Initial estimate of the fixed prefill cost per request, in seconds."""


class Ratio:
    """Ratio of measured to predicted seconds in recent work. The ratio is 1 until the first measurement."""

    def __init__(self, *, memory: float, prior_s: float) -> None:
        """Start with *prior_s* seconds of work that took as long as predicted, so that few samples change little."""
        self._memory = memory
        self._measured_s = self._predicted_s = prior_s

    @property
    def value(self) -> float:
        return self._measured_s / self._predicted_s

    def learn(self, *, measured_s: float, predicted_s: float) -> None:
        self._measured_s = self._measured_s * self._memory + measured_s
        self._predicted_s = self._predicted_s * self._memory + predicted_s


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
    """Learned speed of a fleet: prefill seconds by uncached tokens, seconds per loaded token, and seconds per token by
    running requests.
    """

    def __init__(self, *, prefill_tokens_per_s: float, tier_prices: TierPrices = TierPrices()) -> None:  # noqa: B008
        at_4096_s = PREFILL_OVERHEAD_S + 4096.0 / prefill_tokens_per_s
        self._line = LinearFit(Sample(0.0, PREFILL_OVERHEAD_S), Sample(4096.0, at_4096_s, 0.2))
        # While all prompts have one length, the slope of the line is slow to change, but the ratio is not.
        self._off = Ratio(memory=0.9, prior_s=0.25)
        # 20 ms a token alone, 0.5 ms more for each other request: a mid-size model on one GPU.
        self.decode = LinearFit(Sample(0.0, 0.02), Sample(32.0, 0.036, 0.2))
        self.loads = LoadRates(tier_prices)
        self.gap = Gap()
        self.are_learned = False
        """Whether any prefill was measured. Until then, the rates come from the settings alone."""
        self.prefill_overhead_s = self._line.intercept
        self.prefill_s_per_token = self._line.slope

    def prefill_s(self, uncached_tokens: float) -> float:
        """Return the predicted seconds of a prefill that starts at once."""
        return self.prefill_overhead_s + self.prefill_s_per_token * uncached_tokens

    def load_s(self, loads: Loads) -> float:
        """Return the predicted seconds of *loads*."""
        return self.loads.load_s(loads, self.prefill_s_per_token)

    def load_tokens_per_s(self) -> dict[LoadTier, float]:
        """Return the learned speed of loads in tokens per second, by tier."""
        return self.loads.tokens_per_s(self.prefill_s_per_token)

    def learn_load(self, loads: Loads, measured_s: float) -> None:
        self.loads.learn(loads, measured_s, self.prefill_s_per_token)

    def learn_prefill(self, uncached_tokens: float, measured_s: float) -> None:
        self.are_learned = True
        self._line.learn(uncached_tokens, measured_s)
        self._off.learn(measured_s=measured_s, predicted_s=self._line.predict(uncached_tokens))
        self.prefill_overhead_s = self._line.intercept * self._off.value
        self.prefill_s_per_token = self._line.slope * self._off.value


class RelativePace:
    """Prefill time of one worker relative to its fleet's prefill time.

    The factor is exactly 1 while the measured ratio is within *band*. Workers of one kind then have exactly equal
    costs, and ties between them are broken at random. Otherwise noise would decide, and the worker with the luckiest
    measurements would get all requests.
    """

    def __init__(self, *, band: float = 1.2) -> None:
        self._band = band
        self._ratio = Ratio(memory=0.95, prior_s=1.0)
        self.factor = 1.0

    def learn(self, *, measured_s: float, fleet_s: float) -> None:
        """Learn from a prefill that took *measured_s* seconds when the fleet's rates predicted *fleet_s* seconds."""
        self._ratio.learn(measured_s=measured_s, predicted_s=fleet_s)
        ratio = self._ratio.value
        self.factor = 1.0 if 1.0 / self._band <= ratio <= self._band else ratio
