"""How the tails of named events are fed in tests."""

import json
from typing import Any

from gateway.sse import Tail

DONE = b"data: [DONE]\n\n"


def event(name: str, **fields: Any) -> bytes:
    """One event as vLLM writes it: its name twice, its JSON without spaces."""
    return b"event: %b\ndata: %b\n\n" % (
        name.encode(),
        json.dumps({"type": name, **fields}, separators=(",", ":")).encode(),
    )


def fed(tail: Tail, stream: bytes, sizes: list[int]) -> bytes:
    """What comes out for *stream* in packets of *sizes* and a last one with the rest."""
    out: list[bytes] = []
    for size in sizes:
        packet, stream = stream[:size], stream[size:]
        out += [tail.feed(packet)] if packet else []
    return b"".join([*out, tail.feed(stream) if stream else b"", tail.finish()])


def learnt(tail: Tail) -> tuple[object, ...]:
    """All that a tail has found out."""
    return (tail.begun, tail.usage, tail.done, tail.failed, tail.aborted, tail.response_id, tail.inside_event)
