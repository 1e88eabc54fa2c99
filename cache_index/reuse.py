"""Estimate the probability that a block of a given age is used again, from past reuse and evictions.

Age is measured in uses of the index instead of seconds, so the estimate needs no clock and holds at any request rate.
Sessions are estimated in the same way: a session is used again when it continues.
An evicted block might have been used later, so only a lower bound of its age at reuse is known. Kaplan and Meier,
"Nonparametric Estimation from Incomplete Observations" (1958), show how to include such blocks: the probability at an
age is the share of blocks reused at this age among all blocks that reached it.
"""

from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate

AGES = 64
"""Number of age classes, two for each power of two: 1, 2, 3, 4 to 5, 6 to 7, 8 to 11, and so on."""
MEMORY = 0.95
"""Factor by which `learn` reduces the weight of earlier observations. At one call per 64 uses, about the last 1,300
uses count.
"""


class Reuse:
    """Probability that a block is used again, by age. `learn` takes O(age classes seen). The rest is O(1)."""

    __slots__ = ("_asked", "_chances", "_evicted", "_grown", "_older", "_places")

    def __init__(self) -> None:
        self._asked = [0.0] * AGES
        """Number of reused blocks, by their age class at the time of reuse."""
        self._evicted = [0.0] * AGES
        """Number of evicted blocks, by their age class at the time of eviction."""
        self._chances = [0.0] * AGES
        self._grown = [0.0] * AGES
        """Increase in the number of remaining blocks of at least each age class."""
        self._older = [0.0] * AGES
        """Number of remaining blocks of at least each age class at the last call of `learn`."""
        self._places = 0
        """Number of age classes up to the oldest one seen. All numbers of older classes are 0."""

    def asked(self, age: int, blocks: int) -> None:
        """Record that *blocks* blocks of age *age* were used again."""
        self._asked[self._seen(age)] += blocks

    def evicted(self, age: int, blocks: int) -> None:
        """Record that *blocks* blocks of age *age* were evicted."""
        self._evicted[self._seen(age)] += blocks

    def chance(self, age: int) -> float:
        """Return the probability that a block of age *age* is used again, as computed by the last call of `learn`.

        It is 0 if no block of at least this age was ever used again.
        """
        return self._chances[_place(age)]

    def age_of(self, share: float) -> int | None:
        """Return the highest age in the class of ages up to which *share* of the reused blocks were used again, or None
        if no block was used again. O(`AGES`).
        """
        totals = list(accumulate(self._asked))
        if share <= 0.0 or totals[-1] <= 0.0:
            return None
        return _oldest_at(bisect_left(totals, share * totals[-1]))

    def learn(self, remaining: Mapping[int, float] | None = None) -> None:
        """Update the reuse probabilities and reduce the weight of earlier observations.

        *remaining* is the number of blocks by age that wait to be used again or evicted. The number of blocks that
        reached an age is then known exactly: those that left at this age or later, and the increase of those that
        remain. Without *remaining* the probabilities are too high until evictions begin.
        """
        if remaining is not None:
            self._note_remaining(remaining)
        lain = 0.0
        survives = 1.0
        for place in range(self._places - 1, -1, -1):
            asked = self._asked[place]
            evicted = self._evicted[place]
            lain += asked + evicted
            if asked > 0.0:
                survives *= 1.0 - asked / max(asked, lain + self._grown[place])
                self._asked[place] = asked * MEMORY
            self._chances[place] = 1.0 - survives
            if evicted > 0.0:
                self._evicted[place] = evicted * MEMORY

    def _note_remaining(self, remaining: Mapping[int, float]) -> None:
        by_place = [0.0] * AGES
        for age, blocks in remaining.items():
            by_place[self._seen(age)] += blocks
        older = 0.0
        for place in range(self._places - 1, -1, -1):
            older += by_place[place]
            self._grown[place] = self._grown[place] * MEMORY + older - self._older[place]
            self._older[place] = older

    def _seen(self, age: int) -> int:
        """Return the age class of *age*, which has occurred."""
        place = _place(age)
        if place >= self._places:
            self._places = place + 1
        return place


def _place(age: int) -> int:
    """Return the number of the age class that contains *age*."""
    octave = age.bit_length()
    return age if octave < 2 else min(AGES - 1, 2 * octave - 2 + (age >> (octave - 2) & 1))


def _oldest_at(place: int) -> int:
    """Return the highest age in the age class with the number *place*."""
    if place < 2:
        return place
    octave, half = divmod(place + 2, 2)
    return (3 + half << octave - 2) - 1
