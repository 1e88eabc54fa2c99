"""Session of a request in the engine field `SESSION_FIELD` of its body."""

import msgspec
from msgspec import UNSET

from gateway.protocol.engine_fields import ABSENT, SESSION_FIELD, EngineFields
from gateway.protocol.errors import InvalidField

_decode_text = msgspec.json.Decoder(str | None).decode


def has_session_field(body: EngineFields) -> bool:
    """Return whether *body* contains `SESSION_FIELD`, with any value."""
    value: object = body.session_id
    return value is not ABSENT and value is not UNSET


def session_field_of(body: EngineFields) -> str | None:
    """Return the value of `SESSION_FIELD` in *body*, or None if the field is missing, null or empty.

    Raises:
        InvalidField: if the value is not a string.
    """
    if not has_session_field(body):
        return None
    try:
        return _decode_text(body.session_id) or None
    except msgspec.DecodeError:
        raise InvalidField(f"'{SESSION_FIELD}' must be a string", param=SESSION_FIELD) from None
