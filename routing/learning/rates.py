"""Speed of workers: linear fits shared by a fleet, and the pace of one worker relative to them.

Measurements of one worker count for all at once. If each worker had rates of its own, the first one measured would look
faster than the rest and get all requests.
"""

from routing.learning.fit import LinearFit, Sample

PREFILL_OVERHEAD_S = 0.01
"""Fixed cost of a request before any is measured."""


class Ratio:
    """Recent measured seconds over predicted seconds; 1 until something has been measured."""

    def __init__(self, *, memory: float, prior_s: float) -> None:
        """*prior_s* seconds of work count as having gone as predicted, so that little evidence changes little."""
        self._memory = memory
        self._measured_s = self._predicted_s = prior_s

    @property
    def value(self) -> float:
        return self._measured_s / self._predicted_s

    def learn(self, *, measured_s: float, predicted_s: float) -> None:
        self._measured_s = self._measured_s * self._memory + measured_s
        self._predicted_s = self._predicted_s * self._memory + predicted_s


class Gap:
    """Recent seconds between two tokens of a stream: time over tokens, so that long streams count most."""

    def __init__(self, *, memory: float = 0.95) -> None:
        """The weight of a stream is multiplied by *memory* with each new one."""
        self._memory = memory
        self._elapsed_s = 0.0
        self._gaps = 0.0

    @property
    def usual_s(self) -> float | None:
        """The usual gap. None: no stream was measured."""
        return self._elapsed_s / self._gaps if self._gaps else None

    def learn(self, elapsed_s: float, gaps: int) -> None:
        """Learn from a stream with *gaps* gaps in *elapsed_s* seconds."""
        self._elapsed_s = self._elapsed_s * self._memory + elapsed_s
        self._gaps = self._gaps * self._memory + gaps


class Rates:
    """Rates of a fleet: seconds of prefill over uncached tokens, and seconds per output token over running requests."""

    def __init__(self, *, prefill_tokens_per_s: float) -> None:
        at_4096_s = PREFILL_OVERHEAD_S + 4096.0 / prefill_tokens_per_s
        self._line = LinearFit(Sample(0.0, PREFILL_OVERHEAD_S), Sample(4096.0, at_4096_s, 0.2))
        # While all prompts have one length, the slope of the line is slow to change, but the ratio is not.
        self._off = Ratio(memory=0.9, prior_s=0.25)
        # 20 ms a token alone, 0.5 ms more for each other request: a mid-size model on one GPU.
        self.decode = LinearFit(Sample(0.0, 0.02), Sample(32.0, 0.036, 0.2))
        self.gap = Gap()
        self.are_learned = False
        """Whether a prefill was measured; until then, the rates come from the settings alone."""
        self.prefill_overhead_s = self._line.intercept
        self.prefill_s_per_token = self._line.slope

    def prefill_s(self, uncached_tokens: float) -> float:
        """Return the seconds of a prefill that begins at once."""
        return self.prefill_overhead_s + self.prefill_s_per_token * uncached_tokens

    def learn_prefill(self, uncached_tokens: float, measured_s: float) -> None:
        self.are_learned = True
        self._line.learn(uncached_tokens, measured_s)
        self._off.learn(measured_s=measured_s, predicted_s=self._line.predict(uncached_tokens))
        self.prefill_overhead_s = self._line.intercept * self._off.value
        self.prefill_s_per_token = self._line.slope * self._off.value


class RelativePace:
    """Time of one worker divided by the time of its fleet.

    It is exactly 1 within *band*: workers of one kind then cost exactly the same, and ties between them are broken at
    random. Otherwise noise would decide, and send all requests to the luckiest worker.
    """

    def __init__(self, *, band: float = 1.2) -> None:
        self._band = band
        self._ratio = Ratio(memory=0.95, prior_s=1.0)
        self.factor = 1.0

    def learn(self, *, measured_s: float, fleet_s: float) -> None:
        """Learn from a prefill of *measured_s* that takes the fleet *fleet_s*."""
        self._ratio.learn(measured_s=measured_s, predicted_s=fleet_s)
        ratio = self._ratio.value
        self.factor = 1.0 if 1.0 / self._band <= ratio <= self._band else ratio
