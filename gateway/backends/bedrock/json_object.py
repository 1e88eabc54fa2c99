"""Parser of JSON objects from untrusted bytes."""

from typing import Any

import msgspec


def read_object(data: bytes) -> dict[str, Any]:
    """Parse *data* as a JSON object.

    Raises:
        ValueError: if *data* is not UTF-8, not JSON, nested too deeply or not an object. The message gives the reason.
    """
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not valid JSON: {error}") from error
    except RecursionError as error:
        raise ValueError("not valid JSON: nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - the fault is in the bytes, not in the caller's types
    return value
