"""Predicted speed of one worker: the rates of its fleet multiplied by the worker's relative pace."""

from typing import Final

from routing.learning.rates import Gap, Rates, RelativePace

CAUTION: Final = 1.15
"""Safety factor on the learned number of seconds per token."""
S_PER_TOKEN_MIN: Final = 1e-6
"""Lower limit of the learned seconds per token, equal to a million tokens per second. No engine is faster, but skewed
samples might suggest it.
"""
OUTLIER = 4.0
"""Multiple of the prediction at which samples are capped, plus a fixed slack."""
PREFILL_SLACK_S = 1.0
TPOT_SLACK_S = 0.02


class WorkerSpeed:
    """Predicted times of one worker. Measurements of this worker also update the *rates* of its fleet."""

    def __init__(self, rates: Rates) -> None:
        self.rates = rates
        self.pace = RelativePace()
        self._gap = Gap()

    @property
    def prefill_s_per_token(self) -> float:
        return max(S_PER_TOKEN_MIN, self.rates.prefill_s_per_token * self.pace.factor) * CAUTION

    def prefill_s(self, uncached_tokens: float) -> float:
        """Return the predicted seconds of a prefill that starts at once."""
        return self.rates.prefill_overhead_s * self.pace.factor + self.prefill_s_per_token * uncached_tokens

    @property
    def usual_gap_s(self) -> float | None:
        """Recent seconds between two tokens of a stream on this worker or else its fleet, or None if not measured."""
        here_s = self._gap.usual_s
        return self.rates.gap.usual_s if here_s is None else here_s

    def learn_prefill(self, uncached_tokens: float, measured_s: float) -> None:
        rates = self.rates
        measured_s = min(measured_s, OUTLIER * rates.prefill_s(uncached_tokens) + PREFILL_SLACK_S)
        rates.learn_prefill(uncached_tokens, measured_s)
        self.pace.learn(measured_s=measured_s, fleet_s=rates.prefill_s(uncached_tokens))

    def learn_decode(self, elapsed_s: float, gaps: int, beside: float) -> None:
        """Learn from a stream with *gaps* token gaps in *elapsed_s* seconds and *beside* other running requests."""
        self._gap.learn(elapsed_s, gaps)
        self.rates.gap.learn(elapsed_s, gaps)
        decode = self.rates.decode
        decode.learn(beside, min(elapsed_s / gaps, OUTLIER * decode.predict(beside) + TPOT_SLACK_S))
