"""Accuracy of predicted cache hits on one worker, measured against the cached tokens that its engine reports.

Cache predictions can be wrong because of another chat template, another block size or lost events. Requests are then
routed to caches that do not exist, and without this measurement only slow answers would show it.
"""

from typing import Final, Literal

from routing.booking import Booking
from routing.candidate import Source

ENOUGH_TOKENS: Final = 4096.0
"""Number of tokens needed as evidence before any conclusion is drawn."""
BAND: Final = 0.9
"""Agreement above which no correction is applied, because small deviations are only noise."""
USUALLY: Final = 0.5
"""Share of the recent predictions above which their usual outcome is to be right."""
UNRELIABLE_BELOW = 0.5
RELIABLE_ABOVE = 0.8


class Accuracy:
    """Agreement between predicted and reported cached tokens. Older requests have less weight.

    Each new request multiplies the weight of all earlier requests by *memory*.
    """

    def __init__(self, *, memory: float = 0.98) -> None:
        self._memory = memory
        self._predicted = 0.0
        self._reported = 0.0
        self._agreed = 0.0
        self._larger = 0.0
        self._right = 0.0
        self._requests = 0.0
        self._is_unreliable = False

    def learn(self, *, predicted: float, reported: float) -> None:
        """Learn from a request that has *predicted* and *reported* cached tokens."""
        keep = self._memory
        self._predicted = self._predicted * keep + predicted
        self._reported = self._reported * keep + reported
        self._agreed = self._agreed * keep + min(predicted, reported)
        self._larger = self._larger * keep + max(predicted, reported)
        self._right = self._right * keep + (reported >= BAND * predicted)
        self._requests = self._requests * keep + 1.0
        if self._larger >= ENOUGH_TOKENS:
            self._is_unreliable = self.value < (RELIABLE_ABOVE if self._is_unreliable else UNRELIABLE_BELOW)

    @property
    def value(self) -> float:
        """Share of cached tokens on which predictions and engine reports agree, from 0 to 1, or 1 without evidence."""
        return self._agreed / self._larger if self._larger else 1.0

    @property
    def correction(self) -> float:
        """Factor of at most 1 by which predicted cached tokens are corrected. Underestimates are not corrected."""
        if self._larger < ENOUGH_TOKENS or not self._predicted:
            return 1.0
        ratio = self._reported / self._predicted
        return 1.0 if ratio > BAND else ratio

    @property
    def is_usually_right(self) -> bool:
        """Whether most recent requests had at least about as many cached tokens as predicted.

        Predictions miss some prompts completely and most others not at all. The mean hit, which `correction` gives, is
        then what a hit is worth, but hardly any request has it.
        """
        return self._right >= USUALLY * self._requests

    @property
    def is_unreliable(self) -> bool:
        """Whether predictions are too inaccurate to use. Once true, only clearly better evidence resets this."""
        return self._is_unreliable

    @property
    def is_proven(self) -> bool:
        """Whether enough evidence shows that predictions are accurate."""
        return self._larger >= ENOUGH_TOKENS and self.value > BAND

    def forget(self) -> None:
        """Discard all evidence about predictions, because the engine was replaced or its cache index was rebuilt."""
        self._predicted = self._reported = self._agreed = self._larger = self._right = self._requests = 0.0
        self._is_unreliable = False


AGREEMENTS: Final = 10
"""Number of consecutive correct predictions after which one wrong prediction is ignored."""
MISSED_BELOW: Final = 0.1
"""Share of the predicted tokens below which the engine counts as having cached none of these tokens."""


class Clearings:
    """Detector that separates cleared caches from wrong predictions. An engine can drop its cache without reporting it.

    After ten correct predictions, one missing prompt proves nothing: the engine may have dropped that prompt or the
    whole cache. If the next predicted prompt is missing too, the cache counts as cleared. Ten more correct predictions
    are needed before a missing prompt is ignored again.
    """

    def __init__(self) -> None:
        self._agreements = AGREEMENTS
        self._is_suspected = False

    def judge(self, *, predicted: float, reported: float) -> Literal["learn", "forgive", "cleared"]:
        """Return what the *predicted* and *reported* cached tokens of a request show about the predictions."""
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
    """Accuracy of predicted and of reported cache contents for one worker."""

    def __init__(self) -> None:
        self.reported = Accuracy()
        """Accuracy of cache hits that come from the engine's cache events."""
        self.predicted = Accuracy()
        """Accuracy of cache hits that are predicted from the requests sent to the worker."""
        self._clearings = Clearings()

    def learn(self, booking: Booking, cached_tokens: float) -> bool:
        """Learn that the engine had cached *cached_tokens* prompt tokens. Return whether its cache was cleared."""
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

    def of(self, source: Source) -> Accuracy:
        """Return the accuracy of the cache hits from *source*."""
        return self.reported if source == "reported" else self.predicted

    def forget(self) -> None:
        """Discard all evidence about the worker's predictions, because the engine restarted."""
        self.reported.forget()
        self.predicted.forget()
