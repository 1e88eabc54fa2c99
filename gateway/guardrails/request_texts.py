"""Where in the JSON of a request there are texts: everywhere, for whoever wrote it may want them to be overlooked.

1. Every string is a text, every long number in what a template may render, and the keys of objects as well. Left out
   are top-level fields that no model sees, words of the API itself, ids, and what is no text: images, files.
2. Inside tools, schemas, templates' arguments and what tools were given nothing is left out: there all names are the
   caller's own.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Raw

from gateway.errors import InvalidField
from gateway.guardrails.filter import Text
from gateway.guardrails.texts import JSON_KEYS, LEAST_NUMBER

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
        "truncation",
        "user",
    }
)
"""Top-level fields that are put into no prompt. ``metadata`` and the ids are the caller's own accounts."""

FREE: Final = frozenset(
    {
        *("arguments", "chat_template_kwargs", "custom_params", "documents", "functions", "guided_json", "input"),
        *("input_schema", "json", "json_schema", "nvext", "parameters", "response_format", "schema"),
        *("structured_outputs", "text", "tools", "vllm_xargs"),
    }
)
"""Keys of objects, or of lists of them, inside which all names are the caller's own."""

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
"""Keys of the APIs, and of JSON Schema, in which nobody is looked for."""

TOKEN_FORMS: Final = frozenset(
    {
        *("input_ids", "input_embeds", "prompt_token_ids", "prompt_embeds", "token_ids", "token_data", "tokens"),
        *("previous_response",),
    }
)
"""Keys that hold a prompt in tokens, embeddings, or, of a former response, in what only an engine can read."""
_IDS_OF_TOKENS: Final = frozenset(
    {"allowed_token_ids", "label_token_ids", "labels", "logprob_token_ids", "stop_token_ids", "timestamp_granularities"}
)
"""Top-level lists of numbers that are no prompt."""

Change = Callable[[Text], str | None]


def request_texts(body: dict[str, Any]) -> list[Text]:
    """All texts of *body*, in their order. O(body)."""
    found: list[Text] = []

    def take(text: Text) -> None:
        found.append(text)

    _changed_body(body, take)
    return found


def with_request_texts(body: dict[str, Any], said: "list[str] | tuple[str, ...]") -> dict[str, Any]:
    """*body* with *said* in place of its `request_texts`; values in which nothing has changed are the very same."""
    upcoming = iter(said)
    return _changed_body(body, lambda _: next(upcoming))


def refuse_tokens(body: dict[str, Any]) -> None:
    """Raises InvalidField where *body* has a prompt in tokens or embeddings, in whichever field: none can read it."""
    for name, value in body.items():
        is_list_of_numbers = isinstance(value, list) and name not in _IDS_OF_TOKENS and _has_numbers(value)
        if is_list_of_numbers or _has_token_form(name, value, is_free=False):
            raise InvalidField(
                f"{name!r} holds token ids or embeddings, which no guardrail can look at; send text", param=name
            )


def _has_token_form(name: str, value: Any, *, is_free: bool) -> bool:
    """Whether *value*, under *name*, is a prompt in tokens or has one in it. What is a tool's own is not."""
    if not is_free and name in TOKEN_FORMS and value not in (None, [], "", {}):
        return True
    is_free = is_free or name in {"arguments", "parameters", "input_schema", "schema", "properties"}
    if isinstance(value, dict):
        return any(_has_token_form(key, inner, is_free=is_free) for key, inner in value.items())
    if isinstance(value, list):
        return any(_has_token_form("", each, is_free=is_free) for each in value if isinstance(each, dict | list))
    return False


def _has_numbers(items: list[Any]) -> bool:
    """Whether *items*, or lists in it, hold numbers."""
    return any(_is_number(item) or (isinstance(item, list) and any(map(_is_number, item))) for item in items)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Raw) and not isinstance(value, bool)


def _changed_body(body: dict[str, Any], change: Change) -> dict[str, Any]:
    return {
        name: value if name in UNSEEN else _changed(value, name, change, is_free=name in FREE and name != "input")
        for name, value in body.items()
    }


def _changed(value: Any, key: str, change: Change, *, is_free: bool) -> Any:
    """*value*, which stands under *key*, with what *change* makes of its texts; None: as they are."""
    if isinstance(value, str):
        if not value or (not is_free and _says_no_text(key, value)):
            return value
        return _said(value, change(Text(value, key in JSON_KEYS)))
    if isinstance(value, int | Raw) and not isinstance(value, bool):
        number = _long_number(value) if is_free else None
        said = None if number is None else change(Text(number))
        return value if said is None or said == number else said
    if isinstance(value, list):
        is_free = is_free or (key in FREE and key != "input")  # those are the items of the Responses API
        items = [_changed(each, key if isinstance(each, str) else "", change, is_free=is_free) for each in value]
        return value if all(map(_is_same, items, value)) else items
    if isinstance(value, dict):
        return _changed_object(value, key, change, is_free=is_free)
    return value


def _changed_object(value: dict[str, Any], key: str, change: Change, *, is_free: bool) -> dict[str, Any]:
    is_plain = not is_free and value.get("type") == "text"  # a document of the Messages API, whose data is no base64
    is_free = is_free or key in FREE
    names = _changed_keys(value, change)
    changed = {
        name: inner
        if name == "data" and isinstance(inner, str) and not is_free and not is_plain
        else _changed(inner, name, change, is_free=is_free)
        for name, inner in value.items()
    }
    if names is None and all(map(_is_same, changed.values(), value.values())):
        return value
    return changed if names is None else dict(zip(names, changed.values(), strict=True))


def _changed_keys(value: dict[str, Any], change: Change) -> list[str] | None:
    """The keys of *value* after *change*, all different; None: as they are. They are one text, a line for each."""
    own = [name for name in value if name not in _KNOWN_KEYS]
    if not own:
        return None
    text = "\n".join(own)
    said = change(Text(text))
    if said is None or said == text:
        return None
    lines = said.split("\n")
    if len(lines) != len(own):  # what was found reached over a line's end
        lines = ["[REDACTED]"] * len(own)
    told = {name: line for name, line in zip(own, lines, strict=True) if line != name}
    names: list[str] = []
    for name in value:
        renamed = told.get(name, name)
        while renamed in names or (renamed != name and renamed in value):
            renamed += "_"
        names.append(renamed)
    return names


def _says_no_text(key: str, value: str) -> bool:
    """Whether *value*, under *key*, is none that a model reads as what the caller says."""
    if key in _IDS:
        return _is_id(value) is not None
    return key in _NO_TEXTS or (key in _WORDS and _is_word(value) is not None)


def _long_number(value: Any) -> str | None:
    """A number as a template may render it, if it is long enough to be something."""
    try:
        number = float(msgspec.json.decode(value)) if isinstance(value, Raw) else value
        return f"{number:.0f}" if LEAST_NUMBER <= abs(number) < 1e40 else None
    except (OverflowError, ValueError):
        return None


def _said(value: str, said: str | None) -> str:
    return value if said is None or said == value else said


def _is_same(one: Any, other: Any) -> bool:
    return one is other
