"""What one target has refused, so that no later request asks for it.

Refusals tell what no id does: behind an inference profile's ARN may be any model, and the next version of a family may
take less than the one before.
"""

from dataclasses import dataclass, field

MOST_FIELDS = 64
"""Of one target. Requests have fewer that can be left out."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A field that a model does not take."""

    field: str
    """As the refusal spells it."""
    beside: str | None = None
    """Another one, with which it may not stand together; None: it is not taken at all."""


@dataclass(frozen=True, slots=True)
class OutputLimit:
    """A limit of the output that a refusal names."""

    tokens: int
    is_of_model: bool
    """It holds for every request; else it is what this prompt leaves of the context."""


@dataclass(slots=True)
class Learnt:
    """Of one target, which several models of the gateway may share."""

    unsupported: list[Unsupported] = field(default_factory=list)
    max_output_tokens: int | None = None

    def leave_out(self, refused: Unsupported) -> bool:
        """Whether that is new. What is refused by itself need not be known beside something."""
        if refused in self.unsupported or len(self.unsupported) >= MOST_FIELDS:
            return False
        self.unsupported.append(refused)
        return True

    def lower_output(self, tokens: int) -> bool:
        """Have no request ask for more than *tokens*; whether that is new."""
        if self.max_output_tokens is not None and self.max_output_tokens <= tokens:
            return False
        self.max_output_tokens = tokens
        return True
