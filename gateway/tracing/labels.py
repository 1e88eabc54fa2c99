"""What a caller wants its trace to be called by, in the words that Langfuse's users write into requests.

Headers ``langfuse_*``, and ``metadata`` of a body, as LiteLLM's proxy takes them (docs.litellm.ai, observability).
"""

from collections.abc import Callable
from typing import Any

import msgspec

from gateway.incoming import LONG_BODY_BYTES

MOST_CHARACTERS = 200
"""Of one label: as many as Langfuse takes."""
MOST_LABELS = 32
"""Tags, and entries of metadata."""

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
    """Whatever else the body's ``metadata`` has of plain values."""


def labels_of(header: Callable[[bytes], str | None], raw: bytes) -> Labels:
    """Those of a request with the body *raw*; *header* gives a header's first value. Headers count before the body.

    O(bytes) where the body has the word ``metadata`` in it; one that is very long is not looked into.
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
        tags=tuple(filter(None, map(_text, tags[:MOST_LABELS]))) if isinstance(tags, list) else (),
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
    plain = {name[:MOST_CHARACTERS]: _text(value) for name, value in said.items() if name not in _OURS}
    kept = [(name, text) for name, text in plain.items() if text is not None]
    return dict(kept[:MOST_LABELS])


def _text(value: object) -> str | None:
    """A plain value as text of bounded length; None of anything else, and of nothing."""
    if isinstance(value, str | int | float) and value != "":
        return str(value).strip()[:MOST_CHARACTERS] or None
    return None
