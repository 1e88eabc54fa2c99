"""Read the labels that a caller adds to its trace, in the format of Langfuse.

The labels are in ``langfuse_*`` headers and in the ``metadata`` field of the body, as in LiteLLM's proxy
(docs.litellm.ai, observability).
"""

from collections.abc import Callable
from typing import Any

import msgspec

from gateway.proxy.incoming import LONG_BODY_BYTES

MAX_CHARACTERS = 200
"""Maximum length of a trace label in characters, equal to Langfuse's limit."""
MAX_LABELS = 32
"""Maximum number of tags, and of metadata entries, of a trace."""

SESSION, USER, NAME, TAGS = "session_id", "trace_user_id", "trace_name", "tags"
_OURS = frozenset({SESSION, USER, NAME, TAGS})
_HEADERS = {name: f"langfuse_{name}".encode("ascii") for name in (SESSION, USER, NAME, TAGS)}


class _Metadata(msgspec.Struct):
    metadata: Any = None


_decode = msgspec.json.Decoder(_Metadata).decode


class Labels(msgspec.Struct, frozen=True):
    session: str | None = None
    user: str | None = None
    name: str | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, str] = {}
    """Texts and numbers in the body's ``metadata`` field that have no other meaning."""


def labels_of(header: Callable[[bytes], str | None], raw: bytes) -> Labels:
    """Return the trace labels for a request with the body *raw*. Labels in headers override labels in the body.

    The function *header* returns the first value of a header. Reading takes O(bytes) time if the body contains the word
    ``metadata``. Very long bodies are not searched.
    """
    said = _said_in(raw)
    for name, of_header in _HEADERS.items():
        value = header(of_header)
        if value is not None:
            said[name] = value
    tags = said.get(TAGS)
    if isinstance(tags, str):
        tags = tags.split(",")
    return Labels(
        session=_text(said.get(SESSION)),
        user=_text(said.get(USER)),
        name=_text(said.get(NAME)),
        tags=tuple(filter(None, map(_text, tags[:MAX_LABELS]))) if isinstance(tags, list) else (),
        metadata=_others(said),
    )


def _said_in(raw: bytes) -> dict[str, Any]:
    if len(raw) > LONG_BODY_BYTES or b'"metadata"' not in raw:
        return {}
    try:
        said = _decode(raw).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}  # a form
    return dict(said) if isinstance(said, dict) else {}


def _others(said: dict[str, Any]) -> dict[str, str]:
    plain = {name[:MAX_CHARACTERS]: _text(value) for name, value in said.items() if name not in _OURS}
    kept = [(name, text) for name, text in plain.items() if text is not None]
    return dict(kept[:MAX_LABELS])


def _text(value: object) -> str | None:
    """Return a string or number as text of limited length. Return None for an empty value or any other type."""
    if isinstance(value, str | int | float) and value != "":
        return str(value).strip()[:MAX_CHARACTERS] or None
    return None
