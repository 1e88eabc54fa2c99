"""What every group of settings has in common."""

from pydantic import BaseModel, ConfigDict


class Group(BaseModel):
    """Frozen; nothing that is unknown passes, nothing is taken for another type, and faults show no value."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )
