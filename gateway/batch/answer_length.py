"""Expected length of the answers to lines, which occupy the cache of a worker while they are generated."""

import math
from typing import Final

import msgspec

from gateway.tenancy.ledger.entry import Entry

UNKNOWN_TOKENS: Final = 1024.0
"""Expected length of an answer that the line does not limit, until an answer of its batch is known."""
WEIGHT: Final = 1 / 16
"""Weight of the last answer in the mean length."""


class AskedAnswer(msgspec.Struct):
    """Fields of a line that say which model answers, and how long its answer can be."""

    model: str = ""
    max_tokens: object = None
    max_completion_tokens: object = None
    max_output_tokens: object = None
    n: object = None

    @property
    def most_tokens(self) -> float:
        """Maximum number of tokens of all answers to the line, or infinity without a limit."""
        limits = [self.max_tokens, self.max_completion_tokens, self.max_output_tokens]
        most = max((float(each) for each in limits if isinstance(each, int | float) and each > 0), default=math.inf)
        return most * (max(1, self.n) if isinstance(self.n, int) else 1)


class AnswerLength:
    """Mean length of the answers of one batch."""

    def __init__(self) -> None:
        self._mean: float | None = None

    def expected(self, most: float) -> float:
        """Return the expected tokens of an answer with at most *most* tokens. Without a known answer, this is *most*,
        so that the first lines of a batch do not fill a cache.
        """
        if self._mean is not None:
            return min(most, self._mean)
        return UNKNOWN_TOKENS if math.isinf(most) else most

    def note_entry(self, entry: Entry | None) -> None:
        """Learn from the answer with the ledger entry *entry*, if it was generated."""
        if entry is not None and entry.completion_tokens:
            mean = entry.completion_tokens if self._mean is None else self._mean
            self._mean = mean + WEIGHT * (entry.completion_tokens - mean)
