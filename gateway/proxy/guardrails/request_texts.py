"""Find all texts in the JSON of a request, because its author might try to hide text anywhere in it.

1. Every string, every object key, and every long number that a template may render is a text. Exceptions are top-level
   fields that models do not see, words and ids of the API, images and files.
2. Everything inside tools, schemas, template arguments and tool inputs is a text, because callers choose all names in
   them.
3. The parts of one message belong to one group, because the engine joins them.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Raw

from gateway.protocol.errors import InvalidField
from gateway.proxy.guardrails.filter import Text
from gateway.proxy.guardrails.texts import JSON_KEYS, LEAST_NUMBER

UNSEEN: Final = frozenset(
    {
        "cache_salt",
        "encoding_format",
        "metadata",
        "model",
        "previous_response_id",
        "prompt_cache_key",
        "safety_identifier",
        "service_tier",
        "session_id",
        "truncation",
        "user",
    }
)
"""Top-level request fields that are not part of a prompt. Callers use ``metadata`` and ids for their own purposes."""

FREE: Final = frozenset(
    {
        *("arguments", "chat_template_kwargs", "custom_params", "documents", "functions", "guided_json", "input"),
        *("input_schema", "json", "json_schema", "nvext", "parameters", "response_format", "schema"),
        *("structured_outputs", "text", "tools", "vllm_xargs"),
    }
)
"""Names of request fields that contain an object, or a list of objects, with keys that the caller chooses."""

_NO_TEXTS: Final = frozenset({"encrypted_content", "file_data", "image_url", "signature", "url"})
_IDS: Final = frozenset({"call_id", "file_id", "id", "item_id", "tool_call_id", "tool_use_id"})
_WORDS: Final = frozenset({"detail", "format", "media_type", "mime_type", "role", "status", "type"})
_is_id = re.compile(r"(?!.*(?:[0-9][._:~-]?){9})[A-Za-z0-9._:~-]{1,128}").fullmatch
_is_word = re.compile(r"(?!.*[0-9]{4})[a-z][a-z0-9_]{0,31}|[a-z]{1,16}/[a-z.+-]{1,64}").fullmatch
_KNOWN_KEYS: Final = frozenset(
    {
        *(
            "additionalProperties",
            "anyOf",
            "arguments",
            "audio",
            "call_id",
            "cache_control",
            "content",
            "data",
            "default",
        ),
        *("description", "detail", "documents", "enum", "file", "file_data", "file_id", "format", "function", "id"),
        *("image_url", "input", "input_audio", "items", "json_schema", "media_type", "messages", "mime_type", "name"),
        *(
            "object",
            "output",
            "parameters",
            "properties",
            "reasoning",
            "reasoning_content",
            "refusal",
            "required",
            "role",
        ),
        *("schema", "signature", "source", "status", "strict", "summary", "system", "text", "thinking", "title"),
        *("tool_call_id", "tool_calls", "tool_use_id", "tools", "type", "url"),
    }
)
"""Object keys that the APIs and JSON Schema define. They are not checked as texts."""

TOKEN_FORMS: Final = frozenset(
    {
        *("input_ids", "input_embeds", "prompt_token_ids", "prompt_embeds", "token_ids", "token_data", "tokens"),
        *("previous_response",),
    }
)
"""Names of fields that contain a prompt as token ids or embeddings, or an earlier response in a format that only an
engine can read.
"""
_IDS_OF_TOKENS: Final = frozenset(
    {"allowed_token_ids", "label_token_ids", "labels", "logprob_token_ids", "stop_token_ids", "timestamp_granularities"}
)
"""Top-level fields that contain lists of numbers but no prompt."""

_JOINED: Final = frozenset({"instructions", "system"})
"""Top-level fields whose list items are parts of a single message. In other top-level fields, lists contain messages or
prompts.
"""


class Walk:
    """Traversal of the texts of a request body."""

    __slots__ = ("_change", "_groups")

    def __init__(self, change: Callable[[Text], str | None]) -> None:
        """Create a traversal that calls *change* for each text. *change* returns the changed text, or None to keep the
        text.
        """
        self._change = change
        self._groups = 0

    def new_group(self) -> int:
        """Return a new group number for the parts of the next message."""
        self._groups += 1
        return self._groups

    def text(self, said: str, *, is_json: bool = False, group: int = 0) -> str | None:
        """Return the changed form of the text *said*, or None if the text is unchanged."""
        return self._change(Text(said, is_json, group))


def request_texts(body: dict[str, Any]) -> list[Text]:
    """Return all texts in the request body *body* in order. O(size of *body*)."""
    found: list[Text] = []

    def take(text: Text) -> None:
        found.append(text)

    _changed_body(body, Walk(take))
    return found


def with_request_texts(body: dict[str, Any], said: "list[str] | tuple[str, ...]") -> dict[str, Any]:
    """Return *body* with the texts *said* in place of its texts, one for each result of `request_texts`. Unchanged
    values are the same objects.
    """
    upcoming = iter(said)
    return _changed_body(body, Walk(lambda _: next(upcoming)))


def refuse_tokens(body: dict[str, Any]) -> None:
    """Raise InvalidField if a field of *body* contains a prompt as token ids or embeddings, because guardrails cannot
    check these.
    """
    for name, value in body.items():
        is_list_of_numbers = isinstance(value, list) and name not in _IDS_OF_TOKENS and _has_numbers(value)
        if is_list_of_numbers or _has_token_form(name, value, is_free=False):
            raise InvalidField(
                f"The field {name!r} contains token ids or embeddings, which no guardrail can check. Send text.",
                param=name,
            )


def _has_token_form(name: str, value: Any, *, is_free: bool) -> bool:
    """Return whether the field *name* with the value *value* contains a prompt as token ids. Fields of tools do not
    count.
    """
    if not is_free and name in TOKEN_FORMS and value not in (None, [], "", {}):
        return True
    is_free = is_free or name in {"arguments", "parameters", "input_schema", "schema", "properties"}
    if isinstance(value, dict):
        return any(_has_token_form(key, inner, is_free=is_free) for key, inner in value.items())
    if isinstance(value, list):
        return any(_has_token_form("", each, is_free=is_free) for each in value if isinstance(each, dict | list))
    return False


def _has_numbers(items: list[Any]) -> bool:
    """Return whether *items*, or a list within *items*, contains numbers."""
    return any(_is_number(item) or (isinstance(item, list) and any(map(_is_number, item))) for item in items)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Raw) and not isinstance(value, bool)


def _changed_body(body: dict[str, Any], walk: Walk) -> dict[str, Any]:
    return {
        name: value
        if name in UNSEEN
        else _changed(value, name, walk, is_free=name in FREE and name != "input", is_joined=name in _JOINED)
        for name, value in body.items()
    }


def _changed(value: Any, key: str, walk: Walk, *, is_free: bool, is_joined: bool = True, group: int = 0) -> Any:
    """Return *value*, which is the value of the field *key*, with its texts changed by *walk*.

    If *is_joined* is true and *value* is a list, its items are parts of one message. The number of the message that
    *value* belongs to is passed as *group*.
    """
    if isinstance(value, str):
        if not value or (not is_free and _says_no_text(key, value)):
            return value
        return _said(value, walk.text(value, is_json=key in JSON_KEYS, group=group))
    if isinstance(value, int | Raw) and not isinstance(value, bool):
        number = _long_number(value) if is_free else None
        said = None if number is None else walk.text(number)
        return value if said is None or said == number else said
    if isinstance(value, list):
        is_free = is_free or (key in FREE and key != "input")  # those are the items of the Responses API
        return _changed_list(value, key, walk, is_free=is_free, is_joined=is_joined)
    if isinstance(value, dict):
        return _changed_object(value, key, walk, is_free=is_free, group=group)
    return value


def _changed_list(value: list[Any], key: str, walk: Walk, *, is_free: bool, is_joined: bool) -> list[Any]:
    group = walk.new_group() if is_joined and not is_free and len(value) > 1 else 0
    items = [_changed(each, key if isinstance(each, str) else "", walk, is_free=is_free, group=group) for each in value]
    return value if all(map(_is_same, items, value)) else items


def _changed_object(value: dict[str, Any], key: str, walk: Walk, *, is_free: bool, group: int) -> dict[str, Any]:
    is_plain = not is_free and value.get("type") == "text"  # a document of the Messages API, whose data is no base64
    is_free = is_free or key in FREE
    joined = _joined_field(value) if group else None
    names = _changed_keys(value, walk)
    changed = {
        name: inner
        if name == "data" and isinstance(inner, str) and not is_free and not is_plain
        else _changed(inner, name, walk, is_free=is_free, group=group if name == joined else 0)
        for name, inner in value.items()
    }
    if names is None and all(map(_is_same, changed.values(), value.values())):
        return value
    return changed if names is None else dict(zip(names, changed.values(), strict=True))


def _joined_field(part: dict[str, Any]) -> str:
    """Return the name of the field of a message part that the engine joins with the same field of other parts."""
    kind = part.get("type")
    return kind if isinstance(kind, str) and kind in {"refusal", "thinking"} else "text"


def _changed_keys(value: dict[str, Any], walk: Walk) -> list[str] | None:
    """Return the keys of *value* after *walk* has changed them, or None if they are unchanged. All keys are checked
    together, one per line, and remain distinct.
    """
    own = [name for name in value if name not in _KNOWN_KEYS]
    if not own:
        return None
    text = "\n".join(own)
    said = walk.text(text)
    if said is None or said == text:
        return None
    lines = said.split("\n")
    if len(lines) != len(own):  # what was found reached over a line's end
        lines = ["[REDACTED]"] * len(own)
    changed = {name: line for name, line in zip(own, lines, strict=True) if line != name}
    names: list[str] = []
    for name in value:
        renamed = changed.get(name, name)
        while renamed in names or (renamed != name and renamed in value):
            renamed += "_"
        names.append(renamed)
    return names


def _says_no_text(key: str, value: str) -> bool:
    """Return whether models never read *value*, the value of the field *key*, as text of the caller."""
    if key in _IDS:
        return _is_id(value) is not None
    return key in _NO_TEXTS or (key in _WORDS and _is_word(value) is not None)


def _long_number(value: Any) -> str | None:
    """Return the number *value* as a template could render it, or None if it is too short for personal data."""
    try:
        number = float(msgspec.json.decode(value)) if isinstance(value, Raw) else value
        return f"{number:.0f}" if LEAST_NUMBER <= abs(number) < 1e40 else None
    except (OverflowError, ValueError):
        return None


def _said(value: str, said: str | None) -> str:
    return value if said is None or said == value else said


def _is_same(one: Any, other: Any) -> bool:
    return one is other
