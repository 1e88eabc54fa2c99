"""Recorded requests, and shapes."""

from pathlib import Path

from cache_index.prefix import Prefix
from gateway.protocol.usage import Usage
from gateway.proxy.completed_requests import CompletedRequest
from gateway.telemetry.shapes.reader import read_shapes
from gateway.telemetry.shapes.recorder import ShapeRecorder
from gateway.telemetry.shapes.segments import Segments
from gateway.telemetry.shapes.shape import Shape
from routing.request import Request
from tests.gateway.examples import an_exchange

UNIX_S = 1_800_000_000.0


class Times:
    """A monotonic clock and a wall clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def wall_clock(self) -> float:
        return UNIX_S + self.now


def recorder(directory: Path | None, times: Times, *, max_bytes: int = 2**26, keep_s: float = 3600.0) -> ShapeRecorder:
    files = Segments(directory, max_bytes=max_bytes, keep_s=keep_s, wall_clock=times.wall_clock)
    return ShapeRecorder(files, block_bytes=64, clock=times.clock, wall_clock=times.wall_clock)


def hashes(blocks: str) -> bytes:
    """Return chained hashes of blocks that are named by letters."""
    found = [hash(("chain", blocks[: end + 1])) % 2**64 for end in range(len(blocks))]
    return b"".join(each.to_bytes(8, "little") for each in found)


def completed(
    blocks: str,
    at: float,
    *,
    team: str | None = "blue",
    worker: str = "w0",
    session: str | None = None,
    usage: Usage | None = None,
    lasts_s: float = 2.0,
    exact_tokens: int = 0,
) -> CompletedRequest:
    """A request with one text block of 64 bytes, or 16 tokens, per letter, which arrived at *at*."""
    prefix = Prefix(hashes(blocks))
    exact = (Prefix(hashes(blocks), exact_tokens),) if exact_tokens else ()
    request = Request(prefix, 64 * len(blocks), 16.0 * len(blocks), 100.0, session, exact=exact)
    exchange = an_exchange(
        started=at, team=team, model="tiny", strategy="prefix_aware", backend=worker, request=request, status=200
    )
    exchange.streams = True
    exchange.first_byte = at + 0.5
    exchange.usage = usage or Usage(16 * len(blocks), 40, 0)
    return CompletedRequest(exchange, at + lasts_s)


def recorded(directory: Path, *requests: CompletedRequest) -> list[Shape]:
    """Return the shapes of *requests* as a reader finds them."""
    one = recorder(directory, Times())
    one.observe(list(requests))
    one.close()
    return read_shapes(directory)
