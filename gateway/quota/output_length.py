"""How long answers are, per team and model: what is reserved for one before it is there."""

import math
from collections import deque

WINDOW = 64
"""Answers that are looked at."""
QUANTILE = 0.9
"""One answer of ten is longer than what was reserved; it is settled like all others."""
EVERY = 8
"""Answers after which they are looked at anew; before that many, nothing is known."""
MOST_PAIRS = 4096
"""Of teams and models; those not heard of for longest are forgotten. About 3 KiB each."""
FORGOTTEN = 64
"""At once."""


class _Lengths:
    __slots__ = ("expected", "heard", "last", "unseen")

    def __init__(self) -> None:
        self.last: deque[float] = deque(maxlen=WINDOW)
        self.unseen = 0
        self.heard = 0
        """The number of the answer that was the latest, among those of all pairs."""
        self.expected: float | None = None

    def learn(self, tokens: float) -> None:
        self.last.append(tokens)
        self.unseen += 1
        if self.unseen == EVERY:
            self.unseen = 0
            self.expected = sorted(self.last)[math.ceil(QUANTILE * len(self.last)) - 1]


class OutputLengths:
    """Learns from answers that came to their end. O(1), and a look at `WINDOW` numbers with every `EVERY`th answer, and
    one at all pairs with every `FORGOTTEN`th beyond `MOST_PAIRS`.
    """

    def __init__(self, *, default: float) -> None:
        """*default*: tokens that an answer is expected to have until something is known."""
        self._default = default
        self._lengths: dict[tuple[str, str], _Lengths] = {}
        self._answers = 0

    def expected(
        self, team: str, model: str, *, asked: int | None = None, cap: int | None = None, choices: int = 1
    ) -> float:
        """Tokens of all answers to one request, none longer than the caller *asked* for and than the model's *cap*."""
        known = self._lengths.get((team, model))
        tokens = self._default if known is None or known.expected is None else known.expected
        if asked is not None and asked < tokens:
            tokens = float(asked)
        if cap is not None and cap < tokens:
            tokens = float(cap)
        return tokens * choices

    def learn(self, team: str, model: str, tokens: float, *, choices: int = 1) -> None:
        """A request was answered with *tokens*, those of all its *choices* together."""
        pair = (team, model)
        known = self._lengths.get(pair)
        if known is None:
            if len(self._lengths) >= MOST_PAIRS:
                self._forget()
            known = self._lengths[pair] = _Lengths()
        self._answers += 1
        known.heard = self._answers
        known.learn(tokens / choices if choices > 1 else tokens)

    def _forget(self) -> None:
        """Some at once, as all have to be looked at."""
        pairs = sorted(self._lengths, key=lambda pair: self._lengths[pair].heard)
        for pair in pairs[:FORGOTTEN]:
            del self._lengths[pair]
