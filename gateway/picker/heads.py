"""Headers of requests and answers, and the changes that Envoy makes to them for the gateway."""

from collections.abc import Collection
from dataclasses import dataclass

from gateway.protocol.headers import HOP_BY_HOP, Headers

DESTINATION = b"x-gateway-destination-endpoint"
"""Header with the endpoint to which Envoy sends the request, and further endpoints for its retries."""
PREFILL = b"x-prefiller-host-port"
"""Header with the prefill worker, which llm-d's side-car of the decode worker reads."""
_FRAMING = HOP_BY_HOP | {b"host", b"content-length"}
"""Request headers that Envoy itself sets, and that are not removed."""
_ENVOYS = HOP_BY_HOP | {b"date", b"server", b"via"}
"""Headers of answers that Envoy itself sets, and that are not removed."""


@dataclass(frozen=True, slots=True)
class HeaderChanges:
    """Headers for Envoy to set and to remove."""

    set: Headers
    removed: list[bytes]


def request_changes(received: Headers, wanted: Headers, *, path: bytes | None, length: int | None) -> HeaderChanges:
    """Return the changes that turn the headers *received* of a request into the headers *wanted* for its worker.

    *path* is the new path, or None if the worker gets the path of the request. The body has *length* bytes,
    or None if the worker gets the body of the request.
    """
    changed = _changed(received, wanted)
    if path is not None:
        changed.append((b":path", path))
    for name, value in received:
        if length is not None and name == b"content-length" and value != b"%d" % length:
            changed.append((name, b"%d" % length))
    return HeaderChanges(changed, _missing(received, wanted, _FRAMING))


def without_length(received: Headers, changes: HeaderChanges) -> HeaderChanges:
    """Return *changes* of the headers *received* for a body whose length is not known yet."""
    if all(name != b"content-length" for name, _ in received):
        return changes
    return HeaderChanges(changes.set, [*changes.removed, b"content-length"])


def answer_changes(received: Headers, wanted: Headers) -> HeaderChanges:
    """Return the changes that turn the headers *received* of a worker's answer into the headers *wanted* for the
    caller.
    """
    missing = _missing(received, wanted, _ENVOYS)
    return HeaderChanges(_changed(received, wanted), [name for name in missing if not name.startswith(b"x-envoy-")])


def _changed(received: Headers, wanted: Headers) -> Headers:
    """Return the headers of *wanted* whose values are not those of *received*. A name keeps all its values."""
    before, after = _by_name(received), _by_name(wanted)
    return [(name, value) for name, value in wanted if before.get(name) != after[name]]


def _missing(received: Headers, wanted: Headers, kept: Collection[bytes]) -> list[bytes]:
    names = {name for name, _ in wanted}
    missing = {name for name, _ in received if name not in names and name not in kept and not name.startswith(b":")}
    return sorted(missing)


def _by_name(headers: Headers) -> dict[bytes, list[bytes]]:
    values: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        values.setdefault(name, []).append(value)
    return values
