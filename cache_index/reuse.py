"""The chance that a block is used again, by its age: learned from blocks that were used again or evicted.

Ages are counted in uses of the index, not in seconds. So no clock is needed, and the chances hold at any request rate.
An evicted block might have been used later, so only a lower bound of its age at reuse is known. Kaplan and Meier,
"Nonparametric Estimation from Incomplete Observations" (1958), show how to count such blocks: the chance at an age is
the share of the blocks that reached it and were used again at that age.
"""

AGES = 64
"""Half octaves: 1, 2, 3, 4 to 5, 6 to 7, 8 to 11 and so on, far beyond any age."""
MEMORY = 0.95
"""Factor on earlier evidence at each `learn`. With one every 64 uses, the last 1,300 uses count."""


class Reuse:
    """Chances by age. `learn` is O(`AGES`), a few microseconds; all other methods are O(1)."""

    __slots__ = ("_asked", "_chances", "_evicted")

    def __init__(self) -> None:
        self._asked = [0.0] * AGES
        """Blocks by the age at which they were used again."""
        self._evicted = [0.0] * AGES
        """Blocks by the age at which they were evicted."""
        self._chances = [0.0] * AGES

    def asked(self, age: int, blocks: int) -> None:
        """Note that *blocks* blocks of *age* were used again."""
        self._asked[_place(age)] += blocks

    def evicted(self, age: int, blocks: int) -> None:
        """Note that *blocks* blocks of *age* were evicted."""
        self._evicted[_place(age)] += blocks

    def chance(self, age: int) -> float:
        """Return the chance, 0 to 1, that a block of *age* is used again, as of the last `learn`.

        0 for ages at which no block was used again.
        """
        return self._chances[_place(age)]

    def learn(self) -> None:
        """Update the chances. Earlier evidence counts less."""
        lain = 0.0
        survives = 1.0
        for place in range(AGES - 1, -1, -1):
            asked = self._asked[place]
            lain += asked + self._evicted[place]
            if asked > 0.0:
                survives *= 1.0 - asked / lain
            self._chances[place] = 1.0 - survives
            self._asked[place] = asked * MEMORY
            self._evicted[place] *= MEMORY


def _place(age: int) -> int:
    """Number of the half octave of *age*."""
    octave = age.bit_length()
    return age if octave < 2 else min(AGES - 1, 2 * octave - 2 + (age >> (octave - 2) & 1))
