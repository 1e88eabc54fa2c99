"""Status of each discovery source, with the time of its last answer and the number of workers it found."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_log = logging.getLogger(__name__)


class Watched(Protocol):
    """Attributes of a discovery source that its status report needs."""

    @property
    def model(self) -> str: ...

    @property
    def kind(self) -> str: ...


class SourceStatus:
    """Status of one discovery source."""

    def __init__(self, source: Watched, clock: Callable[[], float]) -> None:
        self._source = source
        self._clock = clock
        self._since = clock()
        """Time of the source's last answer or, if there was no answer yet, of the first query."""
        self.has_been_heard = False
        self.workers = 0
        self.failures = 0
        self.fault = ""
        """Reason why the last query to the source failed, or an empty string if it succeeded."""

    @property
    def age_s(self) -> float:
        """Seconds since the source last answered, or since the first query if it never answered."""
        return self._clock() - self._since

    def heard(self, workers: int) -> None:
        """Record that the source answered with a list of *workers* workers."""
        if self.fault:
            _log.info("model %s: discovery source %r answers again", self._source.model, self._source.kind)
        self._since = self._clock()
        self.has_been_heard = True
        self.workers = workers
        self.fault = ""

    def failed(self, fault: str) -> None:
        """Record a failed query to the source. Until the source answers again, only one failure is logged."""
        self.failures += 1
        if not self.fault:
            _log.warning(
                "model %s: discovery source %r does not answer; the last known workers stay in use: %s",
                *(self._source.model, self._source.kind, fault),
            )
        self.fault = fault

    def report(self) -> dict[str, Any]:
        """Return the status of the source as a JSON-compatible dict for `/readyz`."""
        report = {"synced": self.has_been_heard, "workers": self.workers, "age_s": round(self.age_s, 3)}
        return report | {"fault": self.fault} if self.fault else report


class DiscoveryStatus(Collector):
    """Status of all discovery sources that are currently watched. *clock* returns seconds."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: dict[tuple[str, str], SourceStatus] = {}
        self._were_heard = False

    @contextmanager
    def of(self, source: Watched) -> Iterator[SourceStatus]:
        """Include *source* in the status reports while the context is active."""
        key, source_status = (source.model, source.kind), SourceStatus(source, self._clock)
        self._open[key] = source_status
        try:
            yield source_status
        finally:
            if self._open.get(key) is source_status:  # another search of the same name may have begun
                del self._open[key]

    @property
    def are_awaited(self) -> bool:
        """Whether any source that existed at startup has not answered yet.

        Once all of these sources have answered, this stays false. A source that a reload adds later does not make the
        gateway unready, even if it never answers.
        """
        if not self._were_heard:
            self._were_heard = all(source_status.has_been_heard for source_status in self._open.values())
        return not self._were_heard

    def report(self) -> dict[str, dict[str, Any]]:
        """Return the status of each source, by model name and by the setting that configures the source."""
        report: dict[str, dict[str, Any]] = {}
        for (model, kind), source_status in sorted(self._open.items()):
            report.setdefault(model, {})[kind] = source_status.report()
        return report

    def collect(self) -> Iterator[Metric]:
        labels = ("model", "source")
        age = GaugeMetricFamily(
            "warmgate_discovery_age_seconds", "Seconds since the discovery source last answered.", labels=labels
        )
        synced = GaugeMetricFamily(
            "warmgate_discovery_synced",
            "1 if the discovery source has answered at least once, otherwise 0.",
            labels=labels,
        )
        workers = GaugeMetricFamily(
            "warmgate_discovery_workers", "Number of workers in the last answer of the discovery source.", labels=labels
        )
        failures = CounterMetricFamily(
            "warmgate_discovery_failures", "Number of failed queries to the discovery source.", labels=labels
        )
        for key, source_status in self._open.items():
            age.add_metric(key, source_status.age_s)
            synced.add_metric(key, source_status.has_been_heard)
            workers.add_metric(key, source_status.workers)
            failures.add_metric(key, source_status.failures)
        yield from (age, synced, workers, failures)
