"""Streams of named events for tests."""

import json
from typing import Any

from gateway.protocol.sse import StreamObserver

DONE = b"data: [DONE]\n\n"


def event(name: str, **fields: Any) -> bytes:
    """One event as vLLM writes it: its name twice, its JSON without spaces."""
    return b"event: %b\ndata: %b\n\n" % (
        name.encode(),
        json.dumps({"type": name, **fields}, separators=(",", ":")).encode(),
    )


def fed(observer: StreamObserver, stream: bytes, sizes: list[int]) -> bytes:
    """What comes out for *stream* in packets of *sizes* and a last one with the rest."""
    out: list[bytes] = []
    for size in sizes:
        packet, stream = stream[:size], stream[size:]
        out += [observer.feed(packet)] if packet else []
    return b"".join([*out, observer.feed(stream) if stream else b"", observer.finish()])


def observed(observer: StreamObserver) -> tuple[object, ...]:
    """All that an observer has found out."""
    return (
        observer.begun,
        observer.usage,
        observer.done,
        observer.failed,
        observer.aborted,
        observer.response_id,
        observer.inside_event,
    )
