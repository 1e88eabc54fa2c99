"""How long answers are, per team, model and size of what was asked for: what is reserved for one before it is there."""

import math
from array import array
from typing import Final

WINDOW: Final = 64
"""Answers that are looked at."""
QUANTILE: Final = 0.9
"""One answer of ten is longer than what was reserved; it is settled like all others."""
EVERY: Final = 8
"""Answers after which they are looked at anew; before that many, nothing is known."""
SIZES: Final = 9
"""Kinds of requests that are told apart by their `max_tokens`: none, below 4, 16, 64 ... 16,384, and more. Answers to
requests for one token say nothing of those to requests for thousands."""
MOST_PAIRS = 4096
"""Of teams and models; those not heard of for longest are forgotten. About 1 KiB each, and 5 KiB of all sizes."""
FORGOTTEN = 64
"""At once."""


class Window:
    """The latest answers to requests of one size."""

    __slots__ = ("expected", "last", "next", "unseen")

    def __init__(self) -> None:
        self.last = array("d")
        """Once it is full, the oldest stands at `next`."""
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
    """Of one team and model."""

    __slots__ = ("heard", "is_forgotten", "sizes")

    def __init__(self) -> None:
        self.sizes: list[Window | None] = [None] * SIZES
        """None: nothing was heard of it."""
        self.heard = 0
        """The number of the answer that was the latest, among those of all pairs."""
        self.is_forgotten = False
        """There was no room for it: another is kept by now, or none."""


class OutputLengths:
    """Learns from answers that came to their end. O(1), and a look at `WINDOW` numbers with every `EVERY`th answer, and
    one at all pairs with every `FORGOTTEN`th beyond `MOST_PAIRS`.
    """

    def __init__(self, *, default: float) -> None:
        """*default*: tokens that an answer is expected to have until something is known."""
        self._default = default
        self._lengths: dict[tuple[str, str], Lengths] = {}
        self._answers = 0

    def of(self, team: str, model: str) -> Lengths:
        """Those of a pair, which begins here if nothing was heard of it; to be kept until it is forgotten."""
        pair = (team, model)
        known = self._lengths.get(pair)
        if known is None:
            if len(self._lengths) >= MOST_PAIRS:
                self._forget()
            known = self._lengths[pair] = Lengths()
            known.heard = self._answers
        return known

    def expected(self, of: Lengths, *, asked: int | None = None, cap: int | None = None, choices: int = 1) -> float:
        """Tokens of all answers to one request, none longer than the caller *asked* for and than the model's *cap*."""
        window = of.sizes[_size(asked)]
        tokens = self._default if window is None or window.expected < 0.0 else window.expected
        if asked is not None and asked < tokens:
            tokens = float(asked)
        if cap is not None and cap < tokens:
            tokens = float(cap)
        return tokens * choices

    def learn(self, of: Lengths, tokens: float, *, asked: int | None = None, choices: int = 1) -> None:
        """A request for *asked* tokens was answered with *tokens*, those of all its *choices* together."""
        self._answers += 1
        of.heard = self._answers
        size = _size(asked)
        window = of.sizes[size]
        if window is None:
            window = of.sizes[size] = Window()
        window.learn(tokens / choices if choices > 1 else tokens)

    def _forget(self) -> None:
        """Some at once, as all have to be looked at."""
        pairs = sorted(self._lengths, key=lambda pair: self._lengths[pair].heard)
        for pair in pairs[:FORGOTTEN]:
            self._lengths.pop(pair).is_forgotten = True


def _size(asked: int | None) -> int:
    """Its place among `SIZES`."""
    if asked is None:
        return 0
    return min(SIZES - 1, max(1, (asked.bit_length() + 1) // 2))
