"""Interface of guardrail filters. A filter receives texts and returns a verdict."""

from dataclasses import dataclass, field
from typing import Literal, Protocol

Direction = Literal["request", "response"]
Action = Literal["redact", "block", "log"]
"""Action of a guardrail on what it finds. The action `log` counts the match and lets the text pass."""


@dataclass(frozen=True, slots=True)
class Text:
    """One text of a request or an answer."""

    said: str = field(repr=False)
    is_json: bool = False
    """True for the arguments of a tool call, which must still be valid JSON after a replacement."""
    group: int = 0
    """Number of the message that this text is a part of, or 0 for a separate text. The engine joins the parts of a
    message.
    """


@dataclass(frozen=True, slots=True)
class FilterRequest:
    """Texts that a guardrail filter checks, and their origin."""

    direction: Direction
    texts: tuple[Text, ...]
    team: str | None
    """Team of the caller, or None if no teams are configured."""
    model: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Decision of a guardrail filter on all texts of one request."""

    outcome: Literal["pass", "redact", "block", "log"]
    """Decision on the texts. With `log`, something was found and the texts pass unchanged."""
    texts: tuple[str, ...] = field(default=(), repr=False)
    """Changed texts if the outcome is `redact`, with one text for each text of the request, in the same order."""


PASS = Verdict("pass")
BLOCK = Verdict("block")
LOG = Verdict("log")


class GuardrailFilter(Protocol):
    """Interface of guardrail filters. All implementations must pass tests/contracts/test_filter.py."""

    @property
    def name(self) -> str:
        """Return the guardrail's name in the settings. Errors, metrics and logs contain it."""
        ...

    async def verdict(self, request: FilterRequest) -> Verdict:
        """Return the verdict on the texts of *request*. Errors and log lines must not contain what was found.

        Raises:
            GuardrailUnavailable: if the texts cannot be checked.
        """
        ...
