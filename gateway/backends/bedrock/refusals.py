"""Fields and limits that one target has refused, so that no later request asks for them.

Refusals say what no id does: behind an inference profile's ARN may be any model, and the next version of a family may
take less than the one before.
"""

from dataclasses import dataclass, field

MOST_FIELDS = 64
"""Most refused fields of one target. Requests have fewer that can be left out."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A field that a model does not take."""

    field: str
    """Name as the refusal spells it."""
    beside: str | None = None
    """Option that it cannot be combined with; None: it is never accepted."""


@dataclass(frozen=True, slots=True)
class OutputLimit:
    """A limit of the output that a refusal names."""

    tokens: int
    is_of_model: bool
    """Whether the limit holds for every request; otherwise it is what this prompt leaves of the context."""


@dataclass(slots=True)
class Refusals:
    """Refusals of one target, which several models of the gateway may share."""

    unsupported: list[Unsupported] = field(default_factory=list)
    max_output_tokens: int | None = None

    def leave_out(self, refused: Unsupported) -> bool:
        """Record *refused*; return whether it is new. A field refused alone makes its combinations redundant."""
        if refused in self.unsupported or len(self.unsupported) >= MOST_FIELDS:
            return False
        self.unsupported.append(refused)
        return True

    def lower_output(self, tokens: int) -> bool:
        """Cap requests at *tokens*; return whether the cap is new."""
        if self.max_output_tokens is not None and self.max_output_tokens <= tokens:
            return False
        self.max_output_tokens = tokens
        return True
