"""Readings that a test makes up."""

from collections import Counter
from collections.abc import Mapping

from benchmarks.peers.open_loop import Latency
from benchmarks.peers.scenarios.timed import Reading
from benchmarks.report import Circumstances, Report


def a_report(name: str = "peers_x") -> Report:
    return Report(name, "Title", Circumstances.observe(seed=1, packages=()))


def reading(
    target: str,
    p99_ms: float | None = 5.0,
    *,
    asked: int = 100,
    ends: Mapping[str, int] | None = None,
    round_number: int = 0,
    shares: tuple[float, ...] = (),
    noise: float = 0.0,
) -> Reading:
    latency = None if p99_ms is None else Latency(p99_ms / 5, p99_ms, 2 * p99_ms)
    return Reading(
        target=target,
        round=round_number,
        asked=asked,
        ends=Counter(ends if ends is not None else {"whole": asked}),
        first=latency,
        last=latency,
        late=Latency(0.1, 0.2, 0.3),
        target_cpu=0.5,
        others_on_proxy_core=noise,
        shares=shares,
    )
