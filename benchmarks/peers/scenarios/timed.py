"""Measurement of one target in an open loop, which all scenarios with fixed rates share."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import httpx
import uvloop

from benchmarks.bench import Bench, Target
from benchmarks.peers import open_loop
from benchmarks.peers.line import Answer, Lines
from benchmarks.peers.open_loop import Latency
from benchmarks.processes import core_busy_s
from benchmarks.report import Cell, Spread

AHEAD = 32
"""Number of connections that are opened before the first request."""
TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Reading:
    """Measurement of one target with one schedule."""

    target: str
    round: int
    asked: int
    ends: Counter[str]
    first: Latency | None
    """Latency to the first byte of the body, or None if no answer was complete."""
    last: Latency | None
    late: Latency
    """Delay with which requests were sent. Both latencies include this delay."""
    target_cpu: float
    """Share of a core that the target used."""
    others_on_proxy_core: float
    shares: tuple[float, ...] = ()
    """Shares of the requests that the workers received."""

    @property
    def failed(self) -> int:
        return self.asked - self.ends["whole"]


def observe(
    bench: Bench,
    target: Target,
    request: Callable[[int], bytes],
    schedule: Sequence[float],
    *,
    round_number: int,
    streams: bool = False,
    is_proxy: bool = True,
    workers: Sequence[str] = (),
) -> Reading:
    """Send the requests of *schedule* to *target*. The shares are those of the stub workers *workers*."""
    served = [_served(worker) for worker in workers]
    cpu_s, core_s, began_s = target.child.cpu_s(), core_busy_s(bench.proxy_core), time.monotonic()
    url = target.urls["streams" if streams else "requests"]
    answers = uvloop.run(_drive(url, request, schedule, streams=streams))
    took_s = time.monotonic() - began_s
    used = (target.child.cpu_s() - cpu_s) / took_s
    on_core = (core_busy_s(bench.proxy_core) - core_s) / took_s
    got = [_served(worker) - before for worker, before in zip(workers, served, strict=True)]
    return Reading(
        target=target.name,
        round=round_number,
        asked=len(schedule),
        ends=open_loop.ends(answers),
        first=_latency(open_loop.to_first, answers),
        last=_latency(open_loop.to_last, answers),
        late=Latency.of((each.sent_s or each.due_s) - each.due_s for each in answers),
        target_cpu=used,
        others_on_proxy_core=max(0.0, on_core - (used if is_proxy else 0.0)),
        shares=tuple(each / max(1, sum(got)) for each in got),
    )


async def _drive(
    url: str, request: Callable[[int], bytes], schedule: Sequence[float], *, streams: bool
) -> list[Answer]:
    lines = Lines(url)
    with suppress(OSError):  # who does not listen has all its answers fail, and that is reported
        await lines.open(AHEAD)
    try:
        return await open_loop.drive(lines, request, schedule, streams=streams, timeout_s=TIMEOUT_S)
    finally:
        lines.close()


def spread_ms(readings: Sequence[Reading], figure: Callable[[Reading], float | None]) -> Spread | None:
    """Return the spread of *figure* over the rounds that have a value, or None."""
    values = [value for reading in readings if (value := figure(reading)) is not None]
    return Spread.of(values) if values else None


def failures(readings: Sequence[Reading]) -> Cell:
    """Return the number of requests without a complete answer, with reasons."""
    ends: Counter[str] = Counter()
    for reading in readings:
        ends.update(reading.ends)
    del ends["whole"]
    listed = ", ".join(f"{end}: {count:,}" for end, count in ends.most_common())
    return listed or 0


def noise(readings: Sequence[Reading]) -> list[str]:
    """Return a remark if other programs used the proxy's core, or the client was late."""
    others = Spread.of(reading.others_on_proxy_core for reading in readings).median
    late = Spread.of(reading.late.p99_ms for reading in readings)
    reported = [f"The client sent requests {late.median:.3g} ms after their time at p99 (worst {late.highest:.3g})."]
    if others > 0.05:
        reported.append(f"The machine was not quiet: others took {others:.0%} of the proxy's core. Not for the record.")
    return reported


def _latency(of: Callable[[Sequence[Answer]], Latency], answers: Sequence[Answer]) -> Latency | None:
    return of(answers) if any(each.is_whole for each in answers) else None


def _served(worker: str) -> int:
    served: int = httpx.get(f"{worker}/served").json()["served"]
    return served
