"""How likely a block is asked for again that was not for some time: learnt from those that were, and those evicted.

Ages are counted in uses of the index, not in seconds: so there is no clock, and what is learnt still holds where
everything goes twice as fast. A block that was evicted may have been asked for later; of it only the time until then
is known. Kaplan and Meier, "Nonparametric Estimation from Incomplete Observations" (1958), is how such are counted:
of all blocks that lay for an age, the share that was asked for at that age; what is never asked for again has survived
all ages from its own on.
"""

AGES = 64
"""Half octaves: 1, 2, 3, 4 to 5, 6 to 7, 8 to 11 and so on, far beyond any age."""
MEMORY = 0.95
"""What earlier blocks count at each `learn`: with one every 64 uses, the last 1,300 uses make the picture."""


class Reuse:
    """Chances by age. `asked`, `evicted` and `chance` are O(1), `learn` is O(`AGES`): a few microseconds."""

    __slots__ = ("_asked", "_chances", "_evicted")

    def __init__(self) -> None:
        self._asked = [0.0] * AGES
        """Blocks by the age at which they were asked for again."""
        self._evicted = [0.0] * AGES
        """Blocks by the age at which they went."""
        self._chances = [0.0] * AGES

    def asked(self, age: int, blocks: int) -> None:
        """*blocks* blocks that were not used for *age* uses are asked for again."""
        self._asked[_place(age)] += blocks

    def evicted(self, age: int, blocks: int) -> None:
        """*blocks* blocks that were not used for *age* uses went."""
        self._evicted[_place(age)] += blocks

    def chance(self, age: int) -> float:
        """How likely a block that was not used for *age* uses is asked for again, 0 to 1, as of the last `learn`.

        0 for ages at which nothing ever was.
        """
        return self._chances[_place(age)]

    def learn(self) -> None:
        """Take in what was told since the last time; what was before it counts less."""
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
    """Of *age* among the half octaves."""
    octave = age.bit_length()
    return age if octave < 2 else min(AGES - 1, 2 * octave - 2 + (age >> (octave - 2) & 1))
