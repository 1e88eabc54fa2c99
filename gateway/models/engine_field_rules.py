"""Rules of one model for request fields that control engines internally."""

from dataclasses import dataclass
from typing import Final, Literal

from gateway.protocol.body import Body
from gateway.protocol.engine_fields import SESSION_FIELD, check_engine_fields
from routing.request import NORMAL

PriorityOrder = Literal["none", "low_first", "high_first"]
"""Order in which engines serve priorities: low numbers first, high numbers first, or none."""

PRIORITY_FIELD: Final = "priority"
"""Request field in which vLLM and SGLang read the priority of a request."""

_FACTORS: Final[dict[PriorityOrder, int]] = {"low_first": -1, "high_first": 1}


@dataclass(frozen=True, slots=True)
class EngineFieldRules:
    """Request fields internal to engines that callers or the gateway may send; see `gateway.protocol.engine_fields`."""

    allowed: frozenset[str] = frozenset()
    """Names of the fields that callers may send."""
    priority_order: PriorityOrder = "none"
    """Order of priorities in the engines. With ``none``, the engines do not receive the priorities of requests."""

    def check(self, body: Body) -> None:
        """Check that callers may send all engine fields in *body*.

        Raises:
            InvalidField: if a field is not allowed; *param* names it.
        """
        if body.engine_fields:
            check_engine_fields(body.engine_fields, self.allowed)

    def engine_priority(self, priority: int) -> int | None:
        """Return the number that stands for the routing *priority* in the engines, or None if they have no priorities.

        Normal priority is 0, and neighbors differ by 1. SGLang interrupts running requests only for priorities that
        differ by more than 10 (its default), so that the numbers change only the order of waiting requests.
        """
        factor = _FACTORS.get(self.priority_order)
        return None if factor is None else factor * (priority - NORMAL)

    def for_workers(self, body: Body) -> Body:
        """Return a body in which workers see the caller's session id if it is allowed. Otherwise, return *body*."""
        is_shown = body.hides_session_id and SESSION_FIELD in self.allowed
        return body.changed(hides_session_id=False) if is_shown else body
