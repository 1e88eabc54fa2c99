"""Requests whose answers can be kept, and the keys of these answers.

Two requests have the same key only if everything that can change the answer is equal: the team, the model and its
settings, the guardrails, and the fields of the body. Only fields that no engine reads are left out. Fields of the
outermost object are sorted, but a value counts as the bytes that were sent: the order of properties in a JSON schema,
for example, changes what an engine generates.
"""

import hmac
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw

from gateway.protocol.errors import DECODE_ERRORS
from gateway.protocol.json_bounds import is_light

GENERATING: Final = frozenset({"/v1/chat/completions", "/v1/completions"})
"""URL paths whose answers are kept if the request makes them repeatable, by temperature 0 or a seed."""
COMPUTED: Final = frozenset(
    {"/v1/embeddings", "/v2/embed", "/v1/rerank", "/rerank", "/v2/rerank", "/v1/score", "/score"}
)
"""URL paths whose answers are always repeatable."""

_REFUSED: Final = ("tools", "functions", "tool_choice", "function_call", "web_search_options", "kv_transfer_params")
"""Fields of requests whose answers are never kept: calls of tools have effects outside the model."""
_UNREAD: Final = frozenset({"model", "stream", "user", "safety_identifier", "prompt_cache_key"})
"""Fields that are not part of the canonical body. Model and stream are parts of the key themselves."""
_REMOTE: Final = b'_url"'
"""End of the names of fields such as ``image_url``. What is behind an address can change while the body stays equal."""
_NULL: Final = b"null"

_decode = msgspec.json.Decoder(dict[str, Raw]).decode


def cacheable_fields(path: str, raw: bytes) -> bytes | None:
    """Return the body *raw* of a request to *path* in canonical form, or None if its answer is never kept.

    Takes O(bytes), at most a few milliseconds: long bodies are never cached.
    """
    if (path not in COMPUTED and path not in GENERATING) or not is_light(raw) or _REMOTE in raw:
        return None
    try:
        fields = _decode(raw)
    except DECODE_ERRORS:
        return None
    if path in GENERATING and not _is_repeatable(fields):
        return None
    return framed(part for name in sorted(fields.keys() - _UNREAD) for part in (name.encode(), bytes(fields[name])))


def answer_key(
    secret: bytes,
    *,
    team: str | None,
    guardrails: Sequence[str],
    identity: bytes,
    model: str,
    asked: str,
    target: bytes,
    streams: bool,
    fields: bytes,
) -> bytes:
    """Return the key of an answer, an HMAC with *secret* of everything on which the answer depends.

    These are the *team* of the caller with its *guardrails*, the digest *identity* of the settings of the *model*, the
    name *asked* of the model in the request, path and query (*target*), whether the answer *streams*, and the other
    *fields* of the body in canonical form.
    """
    scope = (b"",) if team is None else (b"team", _encoded(team))
    parts = (framed(scope), framed(map(_encoded, guardrails)), identity, _encoded(model), _encoded(asked), target)
    return hmac.digest(secret, framed((*parts, b"stream" if streams else b"", fields)), "sha256")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def framed(parts: Iterable[bytes]) -> bytes:
    """Return *parts* joined, each after its length, so that different parts never give the same bytes."""
    return b"".join([b"%d:%b" % (len(part), part) for part in parts])


def _is_repeatable(fields: Mapping[str, Raw]) -> bool:
    """Return whether an engine generates the same answer each time, and the answer calls no tools."""
    if any(bytes(fields[name]) not in {_NULL, b"[]"} for name in _REFUSED if name in fields):
        return False
    return _number(fields.get("temperature")) == 0 or isinstance(_number(fields.get("seed")), int)


def _number(value: Raw | None) -> float | None:
    """Return *value* as a number, or None if it is not a number."""
    if value is None:
        return None
    try:
        return msgspec.json.decode(value, type=int | float)
    except DECODE_ERRORS:
        return None
