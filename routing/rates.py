"""How fast workers are: lines that a fleet shares, and how far one worker is from them.

What one worker teaches is believed of all at once. Were rates learnt by each alone, the first to be known would look
faster than the rest and get everything.
"""

from routing.fit import LinearFit, Sample

PREFILL_OVERHEAD_S = 0.01
"""Fixed cost of a request before any is measured."""


class Ratio:
    """Measured seconds over predicted seconds of late; 1 until something has been measured."""

    def __init__(self, *, memory: float, prior_s: float) -> None:
        """*prior_s* seconds of work are taken to have gone as predicted: so much must disagree before it moves."""
        self._memory = memory
        self._measured_s = self._predicted_s = prior_s

    @property
    def value(self) -> float:
        return self._measured_s / self._predicted_s

    def learn(self, *, measured_s: float, predicted_s: float) -> None:
        self._measured_s = self._measured_s * self._memory + measured_s
        self._predicted_s = self._predicted_s * self._memory + predicted_s


class Gap:
    """Seconds between two tokens of a stream, of late: time over tokens, so that long streams count most."""

    def __init__(self, *, memory: float = 0.95) -> None:
        """*memory* is what a stream counts less with each that follows."""
        self._memory = memory
        self._elapsed_s = 0.0
        self._gaps = 0.0

    @property
    def usual_s(self) -> float | None:
        """None until one was measured."""
        return self._elapsed_s / self._gaps if self._gaps else None

    def learn(self, elapsed_s: float, gaps: int) -> None:
        """A stream had *gaps* gaps in *elapsed_s* seconds."""
        self._elapsed_s = self._elapsed_s * self._memory + elapsed_s
        self._gaps = self._gaps * self._memory + gaps


class Rates:
    """Seconds of prefill over uncached tokens, and seconds per output token over neighbours, of a fleet."""

    def __init__(self, *, prefill_tokens_per_s: float) -> None:
        at_4096_s = PREFILL_OVERHEAD_S + 4096.0 / prefill_tokens_per_s
        self._line = LinearFit(Sample(0.0, PREFILL_OVERHEAD_S), Sample(4096.0, at_4096_s, 0.2))
        # The line's slope is slow to move while all prompts are of one length; that they take another time is not.
        self._off = Ratio(memory=0.9, prior_s=0.25)
        # 20 ms a token alone, 0.5 ms more for each neighbour: a mid-size model on one GPU.
        self.decode = LinearFit(Sample(0.0, 0.02), Sample(32.0, 0.036, 0.2))
        self.gap = Gap()
        self.are_learnt = False
        """Whether a prefill was measured: until then they are the settings' word alone."""
        self.prefill_overhead_s = self._line.intercept
        self.prefill_s_per_token = self._line.slope

    def prefill_s(self, uncached_tokens: float) -> float:
        """Seconds that a prefill takes that begins at once."""
        return self.prefill_overhead_s + self.prefill_s_per_token * uncached_tokens

    def learn_prefill(self, uncached_tokens: float, measured_s: float) -> None:
        self.are_learnt = True
        self._line.learn(uncached_tokens, measured_s)
        self._off.learn(measured_s=measured_s, predicted_s=self._line.predict(uncached_tokens))
        self.prefill_overhead_s = self._line.intercept * self._off.value
        self.prefill_s_per_token = self._line.slope * self._off.value


class Pace:
    """How many times as long as its fleet one worker takes.

    Exactly 1 within *band*: workers of one kind then cost exactly the same, and ties between them are broken at random
    instead of by noise, which would send everything to the luckiest.
    """

    def __init__(self, *, band: float = 1.2) -> None:
        self._band = band
        self._ratio = Ratio(memory=0.95, prior_s=1.0)
        self.factor = 1.0

    def learn(self, *, measured_s: float, fleet_s: float) -> None:
        """A prefill took *measured_s* that takes the fleet *fleet_s*."""
        self._ratio.learn(measured_s=measured_s, predicted_s=fleet_s)
        ratio = self._ratio.value
        self.factor = 1.0 if 1.0 / self._band <= ratio <= self._band else ratio
