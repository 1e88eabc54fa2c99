"""Expected answer lengths, learned for each team, model and requested size. Rate limits reserve these lengths."""

import math
from array import array
from typing import Final

WINDOW: Final = 64
"""Number of recent answers from which an expected length is learned."""
QUANTILE: Final = 0.9
"""Quantile of recent answer lengths to reserve. One answer in ten is longer, and is settled like all others."""
EVERY: Final = 8
"""Number of answers between two estimates of the length until `WINDOW` answers are known. The length is unknown before
the first estimate.
"""
EVERY_KNOWN: Final = 32
"""Number of answers between two estimates from then on. An estimate sorts `WINDOW` numbers."""
SIZES: Final = 9
"""Number of request classes by `max_tokens`: unlimited, below 4, 16, 64 ... 16,384, and more. Separate classes are
needed, because answers to requests for one token predict nothing about requests for thousands.
"""
MOST_PAIRS = 4096
"""Maximum number of team and model pairs. The least recently used pairs are dropped. A pair takes 1 KiB, or 5 KiB with
all sizes.
"""
FORGOTTEN = 64
"""Number of team and model pairs to drop at a time."""


class RecentLengths:
    """Lengths of recent answers to requests in one size class."""

    __slots__ = ("expected", "last", "next", "unseen")

    def __init__(self) -> None:
        self.last = array("d")
        """Ring buffer of recent answer lengths in tokens. When it is full, the oldest length is at index `next`."""
        self.next = 0
        self.unseen = 0
        self.expected = -1.0
        """Expected answer length in tokens, or a value below 0 if it is unknown."""

    def learn(self, tokens: float) -> None:
        every = EVERY_KNOWN
        if len(self.last) < WINDOW:
            every = EVERY
            self.last.append(tokens)
        else:
            self.last[self.next] = tokens
            self.next = (self.next + 1) % WINDOW
        self.unseen += 1
        if self.unseen >= every:
            self.unseen = 0
            self.expected = sorted(self.last)[math.ceil(QUANTILE * len(self.last)) - 1]


class Lengths:
    """Recent answer lengths of one model for one team."""

    __slots__ = ("heard", "is_forgotten", "sizes")

    def __init__(self) -> None:
        self.sizes: list[RecentLengths | None] = [None] * SIZES
        """Recent lengths by size class, or None for a class without answers."""
        self.heard = 0
        """Sequence number of the latest answer, counted over all teams and models."""
        self.is_forgotten = False
        """Whether the object was dropped to save memory. If so, another object can have replaced it."""


class OutputLengths:
    """Answer lengths that are learned from completed answers. Learning takes O(1). In addition, every `EVERY_KNOWN`th
    answer sorts `WINDOW` numbers, and every `FORGOTTEN`th pair beyond `MOST_PAIRS` scans all pairs.
    """

    def __init__(self, *, default: float) -> None:
        """Create the collection. *default* is the expected length of an answer in tokens while nothing is learned."""
        self._default = default
        self._lengths: dict[tuple[str, str], Lengths] = {}
        self._answers = 0

    def lengths_for(self, team: str, model: str) -> Lengths:
        """Return the learned lengths for *team* and *model*, which are empty for a new pair. The caller can keep the
        object until `is_forgotten` is true.
        """
        pair = (team, model)
        known = self._lengths.get(pair)
        if known is None:
            if len(self._lengths) >= MOST_PAIRS:
                self._forget()
            known = self._lengths[pair] = Lengths()
            known.heard = self._answers
        return known

    def expected(self, of: Lengths, *, asked: int | None = None, cap: int | None = None, choices: int = 1) -> float:
        """Return the expected tokens in all answers to one request. Each answer is limited to the caller's *asked*
        tokens and the model's *cap*.
        """
        recent = of.sizes[_size(asked)]
        tokens = self._default if recent is None or recent.expected < 0.0 else recent.expected
        if asked is not None and asked < tokens:
            tokens = float(asked)
        if cap is not None and cap < tokens:
            tokens = float(cap)
        return tokens * choices

    def learn(self, of: Lengths, tokens: float, *, asked: int | None = None, choices: int = 1) -> None:
        """Learn that a request for *asked* tokens got *tokens* tokens in all of its *choices* answers together."""
        self._answers += 1
        of.heard = self._answers
        size = _size(asked)
        recent = of.sizes[size]
        if recent is None:
            recent = of.sizes[size] = RecentLengths()
        recent.learn(tokens / choices if choices > 1 else tokens)

    def _forget(self) -> None:
        """Drop several of the least recently used pairs at once, because all pairs must be scanned to find them."""
        pairs = sorted(self._lengths, key=lambda pair: self._lengths[pair].heard)
        for pair in pairs[:FORGOTTEN]:
            self._lengths.pop(pair).is_forgotten = True


def _size(asked: int | None) -> int:
    """Return the size class of a request that asks for *asked* tokens."""
    if asked is None:
        return 0
    return min(SIZES - 1, max(1, (asked.bit_length() + 1) // 2))
