"""Rules of one model for request fields that control engines internally."""

from dataclasses import dataclass

from gateway.protocol.body import Body
from gateway.protocol.engine_fields import SESSION_FIELD, check_engine_fields


@dataclass(frozen=True, slots=True)
class EngineFieldRules:
    """Request fields internal to engines that callers may send; see `gateway.protocol.engine_fields`."""

    allowed: frozenset[str] = frozenset()

    def check(self, body: Body) -> None:
        """Check that callers may send all engine fields in *body*.

        Raises:
            InvalidField: if a field is not allowed; *param* names it.
        """
        if body.engine_fields:
            check_engine_fields(body.engine_fields, self.allowed)

    def for_workers(self, body: Body) -> Body:
        """Return *body* such that workers see the caller's session id if it is allowed, or else *body* unchanged."""
        is_shown = body.hides_session_id and SESSION_FIELD in self.allowed
        return body.changed(hides_session_id=False) if is_shown else body
