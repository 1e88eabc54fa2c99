"""Measurement of the event loop's lag, which delays every request on the gateway."""

import asyncio
from collections.abc import Callable, Iterator

from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.telemetry.counters import Histogram

_LATE_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class LoopWatch(Collector):
    """Histogram of the event loop's lag, measured every *every_s* seconds. Requests are delayed by about this lag.

    A stall shorter than *every_s* may fall between two measurements. Of a longer stall, only a part may be measured.
    """

    def __init__(self, *, clock: Callable[[], float], every_s: float = 0.2) -> None:
        self._clock = clock
        self._every_s = every_s
        self._late = Histogram(_LATE_SECONDS)

    async def run(self) -> None:
        """Measure the event loop's lag until canceled."""
        while True:
            due = self._clock() + self._every_s
            await asyncio.sleep(self._every_s)
            self._late.observe(max(0.0, self._clock() - due))

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(
            "warmgate_event_loop_lag_seconds",
            "Lag of the event loop in seconds, measured five times per second.",
            labels=(),
        )
        family.add_metric((), buckets=self._late.cumulative(), sum_value=self._late.total)
        yield family
