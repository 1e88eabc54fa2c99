"""Interface of guardrail filters. A filter receives texts and returns a verdict."""

from dataclasses import dataclass, field
from typing import Literal, Protocol

Direction = Literal["request", "response"]
Action = Literal["redact", "block", "log"]
"""Action of a guardrail when it finds something. The action `log` counts the match and lets the text pass."""


@dataclass(frozen=True, slots=True)
class Text:
    """Text in a request or an answer."""

    said: str = field(repr=False)
    is_json: bool = False
    """Whether the text is the arguments of a tool call, which must still be valid JSON after a replacement."""
    group: int = 0
    """Number of the message to which the text belongs, or 0 for a separate text. The engine joins the parts of a
    message.
    """


@dataclass(frozen=True, slots=True)
class FilterRequest:
    """Texts for a guardrail filter to check, and the origin of the texts."""

    direction: Direction
    texts: tuple[Text, ...]
    team: str | None
    """Team of the caller, or None if no teams are configured."""
    model: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Decision of a guardrail filter on all texts of one request."""

    outcome: Literal["pass", "redact", "block", "log"]
    """Decision on the texts. With `log`, the filter found something, but the texts pass unchanged."""
    texts: tuple[str, ...] = field(default=(), repr=False)
    """Changed texts for the outcome `redact`. There is one text for each text of the request, in the same order."""


PASS = Verdict("pass")
BLOCK = Verdict("block")
LOG = Verdict("log")


class GuardrailFilter(Protocol):
    """Interface of guardrail filters. All implementations must pass tests/contracts/test_filter.py."""

    @property
    def name(self) -> str:
        """Return the guardrail's name in the settings, which errors, metrics and logs contain."""
        ...

    async def verdict(self, request: FilterRequest) -> Verdict:
        """Return the verdict on the texts of *request*. Errors and log lines must not contain the texts found.

        Raises:
            GuardrailUnavailable: if the texts cannot be checked.
        """
        ...
