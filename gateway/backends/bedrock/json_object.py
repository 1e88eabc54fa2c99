"""JSON object from untrusted bytes."""

from typing import Any

import msgspec


def read_object(data: bytes) -> dict[str, Any]:
    """The object in *data*.

    Raises:
        ValueError: *data* is not JSON, not UTF-8, nested too deep, or not an object; the message says which and where.
    """
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not valid JSON: {error}") from error
    except RecursionError as error:
        raise ValueError("not valid JSON: nested too deep") from error
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - the fault is in the bytes, not in the caller's types
    return value
