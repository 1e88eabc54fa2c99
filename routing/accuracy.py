"""How far what was predicted of a worker's cache comes true, by what its engine reports of each request.

Nobody else in the field looks: an index that lies (another template, another block size, lost events) routes to caches
that are not there, and nothing shows it but slowness.
"""

from typing import Final, Literal

ENOUGH_TOKENS: Final = 4096.0
"""Evidence below which nothing is concluded."""
BAND: Final = 0.9
"""Nearer to 1, a correction is noise: it would only break ties between workers that have the same."""
LIES_BELOW = 0.5
TRUE_ABOVE = 0.8


class Accuracy:
    """Tokens predicted to be cached against tokens that were; what is old counts less.

    *memory* is the share that evidence keeps with each request that follows.
    """

    def __init__(self, *, memory: float = 0.98) -> None:
        self._memory = memory
        self._predicted = 0.0
        self._reported = 0.0
        self._agreed = 0.0
        self._larger = 0.0
        self._is_lying = False

    def learn(self, *, predicted: float, reported: float) -> None:
        """A request for which *predicted* cached tokens were expected had *reported*."""
        keep = self._memory
        self._predicted = self._predicted * keep + predicted
        self._reported = self._reported * keep + reported
        self._agreed = self._agreed * keep + min(predicted, reported)
        self._larger = self._larger * keep + max(predicted, reported)
        if self._larger >= ENOUGH_TOKENS:
            self._is_lying = self.value < (TRUE_ABOVE if self._is_lying else LIES_BELOW)

    @property
    def value(self) -> float:
        """1: all predictions were right, to the token; 0: none had anything in it. 1 while nothing is known."""
        return self._agreed / self._larger if self._larger else 1.0

    @property
    def correction(self) -> float:
        """By what predictions should be multiplied, at most 1: what an engine has beyond them, nobody knows where."""
        if self._larger < ENOUGH_TOKENS or not self._predicted:
            return 1.0
        ratio = self._reported / self._predicted
        return 1.0 if ratio > BAND else ratio

    @property
    def is_lying(self) -> bool:
        """Whether predictions are too wrong to be used. Once true, it takes good ones to be false again."""
        return self._is_lying

    @property
    def is_proven(self) -> bool:
        """Whether there is enough evidence that predictions come true."""
        return self._larger >= ENOUGH_TOKENS and self.value > BAND

    def forget(self) -> None:
        """Another engine runs there now, or its cache was made out anew."""
        self._predicted = self._reported = self._agreed = self._larger = 0.0
        self._is_lying = False


AGREEMENTS: Final = 10
"""Predictions that have to come true before one that does not is held for something else."""
MISSED_BELOW: Final = 0.1
"""Of what was predicted; an engine that has less had none of it."""


class Clearings:
    """Tells caches that were cleared from predictions that are wrong: an engine may forget all, and says so to nobody.

    One prompt that is gone, where ten predictions came true, is no evidence: it was evicted, or all was. When the next
    one is gone as well, all was, and what is sent from then on is there. After that it takes ten again.
    """

    def __init__(self) -> None:
        self._agreements = AGREEMENTS
        self._is_suspected = False

    def judge(self, *, predicted: float, reported: float) -> Literal["learn", "forgive", "cleared"]:
        """What a request shows for which *predicted* cached tokens were expected and that had *reported*."""
        if predicted <= 0.0 or reported >= MISSED_BELOW * predicted:
            if reported >= LIES_BELOW * predicted > 0.0:
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
