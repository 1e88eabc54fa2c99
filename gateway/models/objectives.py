"""Inference objectives of llm-d: names that callers give in a header, and that stand for priorities.

A priority above 0 is high, 0 is normal, and one below 0 is low, because the queue has these classes.
"""

from collections.abc import Mapping
from typing import Final

from gateway.protocol.headers import HeaderLookup
from routing.request import HIGH, LOW, NORMAL

HEADERS: Final = (b"x-llm-d-inference-objective", b"x-gateway-inference-objective")
"""Request headers with the name of the objective. The second one is the former name."""


class ModelObjectives:
    """Objectives of one model, by name."""

    __slots__ = ("priorities",)

    def __init__(self) -> None:
        self.priorities: Mapping[str, int] = {}
        """Priority of each objective. Higher numbers are served first."""

    def level(self, header: HeaderLookup, own: int, *, may_raise: bool) -> int:
        """Return the routing priority of a request whose headers may name an objective, and whose caller has the
        priority *own*. If *may_raise* is false, the objective can only lower the priority, because the caller's key
        has one.
        """
        name = next(filter(None, map(header, HEADERS)), None)
        priority = None if name is None else self.priorities.get(name)
        if priority is None:
            return own
        level = HIGH if priority > 0 else LOW if priority < 0 else NORMAL
        return level if may_raise else min(level, own)


class Objectives:
    """Objectives of all models, by model. Discoveries write them."""

    def __init__(self) -> None:
        self._models: dict[str, ModelObjectives] = {}

    def of(self, model: str) -> ModelObjectives:
        """Return the objectives of the model with the configured name *model*. The object stays the same."""
        return self._models.setdefault(model, ModelObjectives())
