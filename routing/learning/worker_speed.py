"""The speed of one worker: the rates of its fleet, times its own relative pace."""

from typing import Final

from routing.learning.rates import Gap, Rates, RelativePace

CAUTION: Final = 1.15
"""Factor on learned seconds per token."""
S_PER_TOKEN_MIN: Final = 1e-6
"""A million tokens per second: no engine is faster, but samples may say so where short prompts waited for long ones."""
OUTLIER = 4.0
"""A sample longer than this many times the prediction, plus some slack, counts as that long."""
PREFILL_SLACK_S = 1.0
TPOT_SLACK_S = 0.02


class WorkerSpeed:
    """Predicts the times of one worker. What it learns, it also teaches the *rates* of the fleet."""

    def __init__(self, rates: Rates) -> None:
        self.rates = rates
        self.pace = RelativePace()
        self._gap = Gap()

    @property
    def prefill_s_per_token(self) -> float:
        return max(S_PER_TOKEN_MIN, self.rates.prefill_s_per_token * self.pace.factor) * CAUTION

    def prefill_s(self, uncached_tokens: float) -> float:
        """Return the seconds of a prefill that begins at once."""
        return self.rates.prefill_overhead_s * self.pace.factor + self.prefill_s_per_token * uncached_tokens

    @property
    def usual_gap_s(self) -> float | None:
        """Recent seconds between two tokens of a stream, of this worker or else of the fleet. None: not measured."""
        here_s = self._gap.usual_s
        return self.rates.gap.usual_s if here_s is None else here_s

    def learn_prefill(self, uncached_tokens: float, measured_s: float) -> None:
        rates = self.rates
        measured_s = min(measured_s, OUTLIER * rates.prefill_s(uncached_tokens) + PREFILL_SLACK_S)
        rates.learn_prefill(uncached_tokens, measured_s)
        self.pace.learn(measured_s=measured_s, fleet_s=rates.prefill_s(uncached_tokens))

    def learn_decode(self, elapsed_s: float, gaps: int, beside: float) -> None:
        """Learn from a stream with *gaps* gaps in *elapsed_s*, with *beside* other requests running on average."""
        self._gap.learn(elapsed_s, gaps)
        self.rates.gap.learn(elapsed_s, gaps)
        decode = self.rates.decode
        decode.learn(beside, min(elapsed_s / gaps, OUTLIER * decode.predict(beside) + TPOT_SLACK_S))
