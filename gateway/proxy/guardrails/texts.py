"""Find the texts in the JSON of an answer.

Every string is a text, except names, ids, types and URLs. Unknown fields of new engine versions are therefore checked
too.
"""

from collections.abc import Callable
from typing import Any

from gateway.proxy.guardrails.filter import Text

NO_TEXTS = frozenset(
    {
        "cache_salt",
        "call_id",
        "created_at",
        "encoding_format",
        "encrypted_content",
        "file_data",
        "file_id",
        "finish_reason",
        "format",
        "id",
        "image_url",
        "item_id",
        "media_type",
        "metadata",
        "mime_type",
        "model",
        "name",
        "object",
        "previous_response_id",
        "prompt_cache_key",
        "reasoning_effort",
        "response_id",
        "role",
        "safety_identifier",
        "service_tier",
        "session_id",
        "signature",
        "status",
        "stop_reason",
        "system_fingerprint",
        "tool_call_id",
        "tool_use_id",
        "truncation",
        "type",
        "url",
        "user",
    }
)
"""Object keys whose values are not checked. Callers use ``metadata`` and the ids for their own purposes."""

TOKENS = frozenset({"logprobs", "token_ids", "prompt_token_ids", "prompt_logprobs", "top_logprobs", "token_strs"})
"""Keys in an answer whose values repeat text of the answer or prompt as tokens."""

JSON_KEYS = frozenset({"arguments", "partial_json"})
"""Keys whose string values contain JSON, because they are the arguments of tool calls."""


_FREE = frozenset({"input", "arguments"})
"""Keys of objects whose inner keys are defined by a tool. An inner key such as ``user`` has no special meaning, and its
value is a text.
"""

LEAST_NUMBER = 10**7
"""Smallest number that guardrails check, because they do not recognize shorter numbers."""

_DETAILS = ("low", "high", "auto", "original")
"""Values of the `detail` field of images. They are not checked."""


def texts_in(value: Any, key: str = "") -> list[Text]:
    """Return all non-empty texts in the JSON value *value* of the field *key*, in order. O(size of *value*)."""
    found: list[Text] = []

    def take(text: Text) -> None:
        found.append(text)

    _changed(value, key, take)
    return found


def with_texts(value: Any, said: "list[str] | tuple[str, ...]", key: str = "") -> Any:
    """Return *value* with the texts *said* in place of its texts, one for each result of `texts_in`. If nothing
    changes, return the same object.
    """
    upcoming = iter(said)
    return _changed(value, key, lambda _: next(upcoming))


def without_tokens(value: Any) -> Any:
    """Return *value* with null in place of token fields. If it has no token fields, return the same object."""
    if isinstance(value, list):
        return _same_or(value, [without_tokens(inner) for inner in value])
    if not isinstance(value, dict):
        return value
    changed = {key: None if key in TOKENS else without_tokens(inner) for key, inner in value.items()}
    is_same = all(changed[key] is inner for key, inner in value.items())
    return value if is_same else changed


def _changed(value: Any, key: str, change: Callable[[Text], str | None], *, is_free: bool = False) -> Any:
    """Return *value* with its texts changed by *change*, which returns None to keep a text. If *is_free* is true, the
    keys in *value* have no special meaning.
    """
    if isinstance(value, str):
        if not value:
            return value
        said = change(Text(value, key in JSON_KEYS))
        return value if said is None or said == value else said
    if is_free and isinstance(value, int) and abs(value) >= LEAST_NUMBER:
        said = change(Text(str(value)))  # what is found of it makes a string of it
        return value if said is None or said == str(value) else said
    if isinstance(value, list):
        items = [_changed(each, key if isinstance(each, str) else "", change, is_free=is_free) for each in value]
        return _same_or(value, items)
    if isinstance(value, dict):
        is_free = is_free or key in _FREE
        changed = {
            name: _changed(inner, name, change, is_free=is_free) if is_free or _has_texts(name, inner, value) else inner
            for name, inner in value.items()
        }
        return value if all(changed[name] is inner for name, inner in value.items()) else changed
    return value


def _has_texts(name: str, value: Any, holder: dict[str, Any]) -> bool:
    """Return whether *value* contains texts. *value* is the value of the field *name* of the object *holder*."""
    if not isinstance(value, str | list | dict) or name in NO_TEXTS:
        return False
    if name == "data" and isinstance(value, str):
        return holder.get("type") == "text"  # a document of the Messages API; else it is base64
    return not (name == "detail" and value in _DETAILS)


def _same_or(value: list[Any], changed: list[Any]) -> list[Any]:
    same = all(one is other for one, other in zip(value, changed, strict=True))
    return value if same else changed
