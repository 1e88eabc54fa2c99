"""The accuracy of predictions of a worker's cache, compared with the cached tokens that its engine reports.

An index whose predictions are wrong (another template, another block size, lost events) routes to caches that are not
there, and nothing but slowness shows it.
"""

from typing import Final, Literal

from routing.booking import Booking

ENOUGH_TOKENS: Final = 4096.0
"""Evidence below which nothing is concluded."""
BAND: Final = 0.9
"""A correction nearer to 1 is noise: it would only break ties between workers that hold the same."""
UNRELIABLE_BELOW = 0.5
RELIABLE_ABOVE = 0.8


class Accuracy:
    """Predicted cached tokens against reported ones. Older requests count less.

    *memory* is the share of its weight that a request keeps with each that follows.
    """

    def __init__(self, *, memory: float = 0.98) -> None:
        self._memory = memory
        self._predicted = 0.0
        self._reported = 0.0
        self._agreed = 0.0
        self._larger = 0.0
        self._is_unreliable = False

    def learn(self, *, predicted: float, reported: float) -> None:
        """Learn from a request with *predicted* and *reported* cached tokens."""
        keep = self._memory
        self._predicted = self._predicted * keep + predicted
        self._reported = self._reported * keep + reported
        self._agreed = self._agreed * keep + min(predicted, reported)
        self._larger = self._larger * keep + max(predicted, reported)
        if self._larger >= ENOUGH_TOKENS:
            self._is_unreliable = self.value < (RELIABLE_ABOVE if self._is_unreliable else UNRELIABLE_BELOW)

    @property
    def value(self) -> float:
        """The share of tokens on which prediction and report agree, 0 to 1; 1 without evidence."""
        return self._agreed / self._larger if self._larger else 1.0

    @property
    def correction(self) -> float:
        """Factor for predictions, at most 1: where an engine has more than predicted, it is unknown which blocks."""
        if self._larger < ENOUGH_TOKENS or not self._predicted:
            return 1.0
        ratio = self._reported / self._predicted
        return 1.0 if ratio > BAND else ratio

    @property
    def is_unreliable(self) -> bool:
        """Whether predictions are too wrong to be used. Once true, it needs better evidence to become false."""
        return self._is_unreliable

    @property
    def is_proven(self) -> bool:
        """Whether there is enough evidence that predictions are right."""
        return self._larger >= ENOUGH_TOKENS and self.value > BAND

    def forget(self) -> None:
        """Forget all evidence: the engine was replaced, or its cache was rebuilt."""
        self._predicted = self._reported = self._agreed = self._larger = 0.0
        self._is_unreliable = False


AGREEMENTS: Final = 10
"""Right predictions after which a wrong one is taken for something else."""
MISSED_BELOW: Final = 0.1
"""Share of the predicted tokens below which an engine had none of them."""


class Clearings:
    """Distinguishes cleared caches from wrong predictions: an engine may drop its cache without a report.

    One missing prompt after ten right predictions is no evidence: it or the whole cache was dropped. When the next one
    is missing as well, the cache was cleared, and what is sent from then on is there. Then it needs ten again.
    """

    def __init__(self) -> None:
        self._agreements = AGREEMENTS
        self._is_suspected = False

    def judge(self, *, predicted: float, reported: float) -> Literal["learn", "forgive", "cleared"]:
        """Return what a request with *predicted* and *reported* cached tokens shows."""
        if predicted <= 0.0 or reported >= MISSED_BELOW * predicted:
            if reported >= UNRELIABLE_BELOW * predicted > 0.0:
                self._agreements = min(AGREEMENTS, self._agreements + 1)
                self._is_suspected = False
            return "learn"
        if self._is_suspected:
            self._is_suspected = False
            return "cleared"
        if self._agreements < AGREEMENTS:
            return "learn"
        self._agreements = 0
        self._is_suspected = True
        return "forgive"


class HitAccuracy:
    """Accuracy of both kinds of predictions for one worker."""

    def __init__(self) -> None:
        self.reported = Accuracy()
        """Accuracy of predictions from the engine's reports of its cache."""
        self.predicted = Accuracy()
        """Accuracy of predictions from what was sent to the worker."""
        self._clearings = Clearings()

    def learn(self, booking: Booking, cached_tokens: float) -> bool:
        """Learn that the engine had *cached_tokens* of the prompt. Returns whether its cache was cleared."""
        if booking.reported_tokens is not None:
            self.reported.learn(predicted=booking.reported_tokens, reported=cached_tokens)
        if booking.source != "predicted":
            return False
        judgement = self._clearings.judge(predicted=booking.plain_tokens, reported=cached_tokens)
        if judgement == "learn":
            self.predicted.learn(predicted=booking.plain_tokens, reported=cached_tokens)
        elif judgement == "cleared":
            self.predicted.forget()
        return judgement == "cleared"

    def forget(self) -> None:
        """Forget all evidence: the engine restarted."""
        self.reported.forget()
        self.predicted.forget()
