"""The seam of guardrails: something that looks at texts and says what is to become of them."""

from dataclasses import dataclass, field
from typing import Literal, Protocol

Direction = Literal["request", "response"]
Action = Literal["redact", "block", "log"]
"""What a guardrail does with what it finds; ``log``: it is counted, and the text passes."""


@dataclass(frozen=True, slots=True)
class Text:
    """One text of a request or of an answer."""

    said: str = field(repr=False)
    is_json: bool = False
    """The arguments of a call: what stands in place of something there must leave them JSON."""
    group: int = 0
    """The same for all parts of one message, which its engine joins; 0 for a text that stands alone."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a filter is asked about."""

    direction: Direction
    texts: tuple[Text, ...]
    team: str | None
    """None where there are no teams."""
    model: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a filter says of all texts of one question."""

    outcome: Literal["pass", "redact", "block", "log"]
    """``log``: something was found, and nothing is to be done about it."""
    texts: tuple[str, ...] = field(default=(), repr=False)
    """After ``redact``: as many as were asked about, in their order."""


PASS = Verdict("pass")
BLOCK = Verdict("block")
LOG = Verdict("log")


class Filter(Protocol):
    """Implementations are held to tests/contracts/test_filter.py."""

    @property
    def name(self) -> str:
        """As the settings have it; it stands in errors, metrics and logs."""
        ...

    async def verdict(self, question: Question) -> Verdict:
        """What is to become of the texts of *question*. What was found is never part of an error or a log line.

        Raises:
            GuardrailAway: nobody could say.
        """
        ...
