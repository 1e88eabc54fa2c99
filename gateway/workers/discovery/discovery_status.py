"""State of each source of workers: when it last answered, and how many workers it had."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_log = logging.getLogger(__name__)


class Watched(Protocol):
    """A source of workers, as far as its status needs to know it."""

    @property
    def model(self) -> str: ...

    @property
    def kind(self) -> str: ...


class SourceStatus:
    """State of one source."""

    def __init__(self, source: Watched, clock: Callable[[], float]) -> None:
        self._source = source
        self._clock = clock
        self._since = clock()
        """Time of its last answer, or of the first question."""
        self.has_been_heard = False
        self.workers = 0
        self.failures = 0
        self.fault = ""
        """Reason why the last attempt failed."""

    @property
    def age_s(self) -> float:
        """Seconds since its last answer, or since the first question if it never answered."""
        return self._clock() - self._since

    def heard(self, workers: int) -> None:
        """Record an answer with this number of *workers*."""
        if self.fault:
            _log.info("model %s: its %s answers again", self._source.model, self._source.kind)
        self._since = self._clock()
        self.has_been_heard = True
        self.workers = workers
        self.fault = ""

    def failed(self, fault: str) -> None:
        """Record a failure; log it once, until the source answers again."""
        self.failures += 1
        if not self.fault:
            _log.warning(
                "model %s: its %s does not answer, the last workers found stay in use: %s",
                *(self._source.model, self._source.kind, fault),
            )
        self.fault = fault

    def report(self) -> dict[str, Any]:
        """Return the state as values of JSON, for `/readyz`."""
        report = {"synced": self.has_been_heard, "workers": self.workers, "age_s": round(self.age_s, 3)}
        return report | {"fault": self.fault} if self.fault else report


class DiscoveryStatus(Collector):
    """State of all sources that are watched now. *clock* gives seconds."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: dict[tuple[str, str], SourceStatus] = {}
        self._were_heard = False

    @contextmanager
    def of(self, source: Watched) -> Iterator[SourceStatus]:
        """Watch *source* inside of this context."""
        key, source_status = (source.model, source.kind), SourceStatus(source, self._clock)
        self._open[key] = source_status
        try:
            yield source_status
        finally:
            if self._open.get(key) is source_status:  # another search of the same name may have begun
                del self._open[key]

    @property
    def are_awaited(self) -> bool:
        """Whether one of the sources at the start has not answered yet.

        Once all of them have answered this stays false: a source that a reload adds and that does not answer costs its
        model some workers, and must not take the whole gateway out.
        """
        if not self._were_heard:
            self._were_heard = all(source_status.has_been_heard for source_status in self._open.values())
        return not self._were_heard

    def report(self) -> dict[str, dict[str, Any]]:
        """Return the state of each source, by model and setting."""
        report: dict[str, dict[str, Any]] = {}
        for (model, kind), source_status in sorted(self._open.items()):
            report.setdefault(model, {})[kind] = source_status.report()
        return report

    def collect(self) -> Iterator[Metric]:
        labels = ("model", "source")
        age = GaugeMetricFamily(
            "warmgate_discovery_age_seconds", "Since the source of workers was heard last.", labels=labels
        )
        synced = GaugeMetricFamily("warmgate_discovery_synced", "0 until the source was heard once.", labels=labels)
        workers = GaugeMetricFamily(
            "warmgate_discovery_workers", "Workers in the last answer of the source.", labels=labels
        )
        failures = CounterMetricFamily(
            "warmgate_discovery_failures", "Questions that the source did not answer.", labels=labels
        )
        for key, source_status in self._open.items():
            age.add_metric(key, source_status.age_s)
            synced.add_metric(key, source_status.has_been_heard)
            workers.add_metric(key, source_status.workers)
            failures.add_metric(key, source_status.failures)
        yield from (age, synced, workers, failures)
