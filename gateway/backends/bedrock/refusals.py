"""Request fields and output limits that a Bedrock target has rejected and that later requests avoid.

They complement what is known from the model id. An inference profile's ARN can stand for any model, and a new version
of a family may support less than the one before.
"""

from dataclasses import dataclass, field

MOST_FIELDS = 64
"""Maximum number of rejected fields recorded per target. Requests have fewer fields that can be dropped."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Request field that a model does not support."""

    field: str
    """Name of the rejected field, spelled as in Bedrock's error message."""
    beside: str | None = None
    """Field that cannot be combined with the rejected field, or None if the rejected field is never accepted."""


@dataclass(frozen=True, slots=True)
class OutputLimit:
    """Output limit that Bedrock's error message gives."""

    tokens: int
    is_of_model: bool
    """Whether the limit applies to every request. Otherwise, it is the part of the context that the prompt leaves free.
    """


@dataclass(slots=True)
class Refusals:
    """Fields and limits that one target has rejected. Several of the gateway's models can share a target."""

    unsupported: list[Unsupported] = field(default_factory=list)
    max_output_tokens: int | None = None

    def leave_out(self, refused: Unsupported) -> bool:
        """Record a rejected field. Return whether the field is new and the record is not full."""
        if refused in self.unsupported or len(self.unsupported) >= MOST_FIELDS:
            return False
        self.unsupported.append(refused)
        return True

    def lower_output(self, tokens: int) -> bool:
        """Lower the output limit to *tokens*. Return whether the limit was higher before."""
        if self.max_output_tokens is not None and self.max_output_tokens <= tokens:
            return False
        self.max_output_tokens = tokens
        return True
