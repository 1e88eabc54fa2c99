"""The seam of guardrails: a filter gets texts and returns a verdict."""

from dataclasses import dataclass, field
from typing import Literal, Protocol

Direction = Literal["request", "response"]
Action = Literal["redact", "block", "log"]
"""Action of a guardrail on what it finds; ``log``: count it and let the text pass."""


@dataclass(frozen=True, slots=True)
class Text:
    """One text of a request or of an answer."""

    said: str = field(repr=False)
    is_json: bool = False
    """True for the arguments of a call: replacements in them must leave valid JSON."""
    group: int = 0
    """Number of the message whose parts the engine joins; 0 for a separate text."""


@dataclass(frozen=True, slots=True)
class FilterRequest:
    """Texts to check, and where they come from."""

    direction: Direction
    texts: tuple[Text, ...]
    team: str | None
    """Team of the caller; None if there are no teams."""
    model: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Decision of a filter on all texts of one request."""

    outcome: Literal["pass", "redact", "block", "log"]
    """``log``: something was found, and the texts pass."""
    texts: tuple[str, ...] = field(default=(), repr=False)
    """Changed texts after ``redact``, as many as in the request and in its order."""


PASS = Verdict("pass")
BLOCK = Verdict("block")
LOG = Verdict("log")


class GuardrailFilter(Protocol):
    """A filter of texts; tests/contracts/test_filter.py holds for all implementations."""

    @property
    def name(self) -> str:
        """Return the name in the settings; it is part of errors, metrics and logs."""
        ...

    async def verdict(self, request: FilterRequest) -> Verdict:
        """Return the verdict on the texts of *request*. No error or log line has what was found.

        Raises:
            GuardrailUnavailable: the texts could not be checked.
        """
        ...
