"""Expected lengths of answers, learned per team, model and requested size. Limits reserve them."""

import math
from array import array
from typing import Final

WINDOW: Final = 64
"""Latest answers that count."""
QUANTILE: Final = 0.9
"""One answer of ten is longer than reserved. It is settled like all others."""
EVERY: Final = 8
"""Answers between two evaluations. Before the first one, nothing is known."""
SIZES: Final = 9
"""Classes of requests by `max_tokens`: none, below 4, 16, 64 ... 16,384, and more. Answers to requests for one token
predict nothing for requests for thousands."""
MOST_PAIRS = 4096
"""Pairs of team and model; the least recently used are forgotten. About 1 KiB each, or 5 KiB with all sizes."""
FORGOTTEN = 64
"""Pairs that are forgotten at once."""


class RecentLengths:
    """The latest answers to requests of one size."""

    __slots__ = ("expected", "last", "next", "unseen")

    def __init__(self) -> None:
        self.last = array("d")
        """Once it is full, the oldest is at `next`."""
        self.next = 0
        self.unseen = 0
        self.expected = -1.0
        """Tokens; below 0: nothing is known."""

    def learn(self, tokens: float) -> None:
        if len(self.last) < WINDOW:
            self.last.append(tokens)
        else:
            self.last[self.next] = tokens
            self.next = (self.next + 1) % WINDOW
        self.unseen += 1
        if self.unseen == EVERY:
            self.unseen = 0
            self.expected = sorted(self.last)[math.ceil(QUANTILE * len(self.last)) - 1]


class Lengths:
    """Lengths of the answers of one model to one team."""

    __slots__ = ("heard", "is_forgotten", "sizes")

    def __init__(self) -> None:
        self.sizes: list[RecentLengths | None] = [None] * SIZES
        """None: no answers yet."""
        self.heard = 0
        """Number of the latest answer, counted over all pairs."""
        self.is_forgotten = False
        """Whether it was dropped for lack of room. Another may have replaced it."""


class OutputLengths:
    """Learns from completed answers. O(1), plus a look at `WINDOW` numbers with every `EVERY`th answer, and one at all
    pairs with every `FORGOTTEN`th beyond `MOST_PAIRS`.
    """

    def __init__(self, *, default: float) -> None:
        """*default*: expected tokens of an answer until something is known."""
        self._default = default
        self._lengths: dict[tuple[str, str], Lengths] = {}
        self._answers = 0

    def lengths_for(self, team: str, model: str) -> Lengths:
        """Return the lengths of a pair, empty ones if it is new. The caller may keep them until they are forgotten."""
        pair = (team, model)
        known = self._lengths.get(pair)
        if known is None:
            if len(self._lengths) >= MOST_PAIRS:
                self._forget()
            known = self._lengths[pair] = Lengths()
            known.heard = self._answers
        return known

    def expected(self, of: Lengths, *, asked: int | None = None, cap: int | None = None, choices: int = 1) -> float:
        """Return the tokens of all answers to one request, each at most what the caller *asked* for and the model's
        *cap*.
        """
        recent = of.sizes[_size(asked)]
        tokens = self._default if recent is None or recent.expected < 0.0 else recent.expected
        if asked is not None and asked < tokens:
            tokens = float(asked)
        if cap is not None and cap < tokens:
            tokens = float(cap)
        return tokens * choices

    def learn(self, of: Lengths, tokens: float, *, asked: int | None = None, choices: int = 1) -> None:
        """Record that a request for *asked* tokens was answered with *tokens* in all *choices* together."""
        self._answers += 1
        of.heard = self._answers
        size = _size(asked)
        recent = of.sizes[size]
        if recent is None:
            recent = of.sizes[size] = RecentLengths()
        recent.learn(tokens / choices if choices > 1 else tokens)

    def _forget(self) -> None:
        """Drop some pairs at once, because that looks at all of them."""
        pairs = sorted(self._lengths, key=lambda pair: self._lengths[pair].heard)
        for pair in pairs[:FORGOTTEN]:
            self._lengths.pop(pair).is_forgotten = True


def _size(asked: int | None) -> int:
    """Return the class of *asked* among `SIZES`."""
    if asked is None:
        return 0
    return min(SIZES - 1, max(1, (asked.bit_length() + 1) // 2))
