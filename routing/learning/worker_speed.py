"""Predicted speed of one worker: the rates of its fleet multiplied by the worker's relative pace."""

from typing import Final

from routing.learning.load_rates import LoadTier
from routing.learning.prediction_error import PredictionError
from routing.learning.rates import Gap, Rates, RelativePace
from routing.loads import NO_LOADS, Loads

S_PER_TOKEN_MIN: Final = 1e-6
"""Lower limit of the learned seconds per token, equal to a million tokens per second. No engine is faster, but skewed
samples might suggest it.
"""
OUTLIER = 4.0
"""Multiple of the prediction at which samples are capped, plus a fixed slack."""
NORMALIZED: Final = 0.95
"""Power of a worker's pace by which its samples are divided before the fleet learns from them. The fleet's rates then
fit every worker up to a factor. They settle at a mean of all workers, because the power is less than 1.
"""
PREFILL_SLACK_S = 1.0
LOAD_SLACK_S = 0.25
TPOT_SLACK_S = 0.02


class WorkerSpeed:
    """Predicted times of one worker. Measurements of this worker also update the *rates* of its fleet."""

    def __init__(self, rates: Rates) -> None:
        self.rates = rates
        self.pace = RelativePace()
        self._load_pace = RelativePace()
        self._decode_pace = RelativePace()
        self.ttft_error = PredictionError()
        """Error of the times to the first token that were predicted when requests were sent."""
        self._gap = Gap()

    @property
    def prefill_overhead_s(self) -> float:
        """Fixed seconds of a prefill, for comparing workers."""
        return self.rates.prefill.overhead_s * self.pace.factor

    def prefill_s_per_token(self, decodes: float) -> float:
        """Return the seconds per uncached token beside *decodes* generating requests, for comparing workers."""
        prefill = self.rates.prefill
        s_per_token = prefill.s_per_token + decodes * prefill.decode_s_per_token
        return max(S_PER_TOKEN_MIN, s_per_token * self.pace.factor)

    @property
    def prefill_tokens_per_s(self) -> float:
        """Prefill speed in tokens per second while no request generates tokens, for comparing workers."""
        return 1.0 / self.prefill_s_per_token(0.0)

    @property
    def decode_s_per_token(self) -> float:
        """Seconds per output token by which one more running request slows down generation."""
        return self.rates.decode.slope * self._decode_pace.factor

    def prefill_s(self, uncached_tokens: float, decodes: float = 0.0) -> float:
        """Return the predicted seconds of a prefill that starts at once, beside *decodes* generating requests."""
        return max(S_PER_TOKEN_MIN * uncached_tokens, self.rates.prefill_s(uncached_tokens, decodes) * self.pace.ratio)

    def load_s(self, loads: Loads) -> float:
        """Return the predicted seconds of *loads*."""
        return self.rates.load_s(loads) * self._load_pace.ratio if loads.total else 0.0

    def load_tokens_per_s(self) -> dict[LoadTier, float]:
        """Return the speed of loads in tokens per second that predictions use, by tier that has been measured."""
        slowdown = self._load_pace.ratio
        return {tier: speed / slowdown for tier, speed in self.rates.load_tokens_per_s().items()}

    @property
    def usual_gap_s(self) -> float | None:
        """Recent seconds between two tokens of a stream on this worker or else its fleet, or None if not measured."""
        here_s = self._gap.usual_s
        return self.rates.gap.usual_s if here_s is None else here_s

    def learn_prefill(
        self, uncached_tokens: float, measured_s: float, loads: Loads = NO_LOADS, *, decodes: float = 0.0
    ) -> None:
        """Learn from a prefill that took *measured_s* seconds, including *loads*, beside *decodes* generating requests.

        A prefill shows how long loading takes if more tokens were loaded than computed, and otherwise how long
        computing takes. This rule needs no estimate of either time, so two wrong estimates cannot confirm each other.
        """
        rates = self.rates
        if loads.total > uncached_tokens:
            self._learn_load(loads, measured_s - self.prefill_s(uncached_tokens, decodes))
            return
        if loads.total:
            measured_s = max(0.0, measured_s - self.load_s(loads))
        measured_s = min(measured_s, OUTLIER * self.prefill_s(uncached_tokens, decodes) + PREFILL_SLACK_S)
        rates.learn_prefill(uncached_tokens, measured_s / self.pace.factor**NORMALIZED, decodes)
        self.pace.learn(measured_s=measured_s, fleet_s=rates.prefill_s(uncached_tokens, decodes))

    def _learn_load(self, loads: Loads, measured_s: float) -> None:
        measured_s = min(measured_s, OUTLIER * self.rates.load_s(loads) + LOAD_SLACK_S)
        self.rates.learn_load(loads, measured_s)
        self._load_pace.learn(measured_s=max(0.0, measured_s), fleet_s=self.rates.load_s(loads))

    def learn_decode(self, elapsed_s: float, gaps: int, beside: float) -> None:
        """Learn from a stream with *gaps* token gaps in *elapsed_s* seconds and *beside* other running requests."""
        self._gap.learn(elapsed_s, gaps)
        self.rates.gap.learn(elapsed_s, gaps)
        decode, pace = self.rates.decode, self._decode_pace
        tpot_s = min(elapsed_s / gaps, OUTLIER * decode.predict(beside) * pace.ratio + TPOT_SLACK_S)
        decode.learn(beside, tpot_s / pace.factor**NORMALIZED)
        pace.learn(measured_s=tpot_s, fleet_s=decode.predict(beside))
