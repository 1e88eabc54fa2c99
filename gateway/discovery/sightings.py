"""How fresh the gateway's knowledge of its workers is: which source was heard last when, and how many it told of."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.discovery.source import Source

_log = logging.getLogger(__name__)


class Sighting:
    """What is known of one source."""

    def __init__(self, source: Source, clock: Callable[[], float]) -> None:
        self._source = source
        self._clock = clock
        self._since = clock()
        """When it was heard last; before that, when it was asked first."""
        self.has_been_heard = False
        self.workers = 0
        self.failures = 0
        self.fault = ""
        """Why it was not heard at the last try."""

    @property
    def age_s(self) -> float:
        """How long ago it was heard last, or asked first if it never was."""
        return self._clock() - self._since

    def heard(self, workers: int) -> None:
        """It told of so many *workers*."""
        if self.fault:
            _log.info("model %s: its %s is heard again", self._source.model, self._source.kind)
        self._since = self._clock()
        self.has_been_heard = True
        self.workers = workers
        self.fault = ""

    def failed(self, fault: str) -> None:
        """It was not heard. Said once, until it is heard again."""
        self.failures += 1
        if not self.fault:
            _log.warning(
                "model %s: its %s is not heard, and what was found last stays: %s",
                *(self._source.model, self._source.kind, fault),
            )
        self.fault = fault

    def told(self) -> dict[str, Any]:
        """For whoever asks whether the gateway is ready."""
        told = {"synced": self.has_been_heard, "workers": self.workers, "age_s": round(self.age_s, 3)}
        return told | {"fault": self.fault} if self.fault else told


class Sightings(Collector):
    """Those of all sources that are asked at this moment. *clock* gives seconds."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: dict[tuple[str, str], Sighting] = {}
        self._were_heard = False

    @contextmanager
    def of(self, source: Source) -> Iterator[Sighting]:
        """Inside, *source* is asked."""
        key, sighting = (source.model, source.kind), Sighting(source, self._clock)
        self._open[key] = sighting
        try:
            yield sighting
        finally:
            if self._open.get(key) is sighting:  # another search of the same name may have begun
                del self._open[key]

    @property
    def are_awaited(self) -> bool:
        """Whether the gateway has yet to hear one of the sources that it began with.

        Once it has heard all of them it is not awaited any more: a reload that names a source which nobody hears
        costs the model of that source its workers, and must not take the whole gateway out.
        """
        if not self._were_heard:
            self._were_heard = all(sighting.has_been_heard for sighting in self._open.values())
        return not self._were_heard

    def told(self) -> dict[str, dict[str, Any]]:
        """What each source told last, by model and setting."""
        told: dict[str, dict[str, Any]] = {}
        for (model, kind), sighting in sorted(self._open.items()):
            told.setdefault(model, {})[kind] = sighting.told()
        return told

    def collect(self) -> Iterator[Metric]:
        labels = ("model", "source")
        age = GaugeMetricFamily(
            "warmgate_discovery_age_seconds", "Since the source of workers was heard last.", labels=labels
        )
        synced = GaugeMetricFamily("warmgate_discovery_synced", "0 until the source was heard once.", labels=labels)
        workers = GaugeMetricFamily("warmgate_discovery_workers", "That the source told of last.", labels=labels)
        failures = CounterMetricFamily(
            "warmgate_discovery_failures", "Questions that the source did not answer.", labels=labels
        )
        for key, sighting in self._open.items():
            age.add_metric(key, sighting.age_s)
            synced.add_metric(key, sighting.has_been_heard)
            workers.add_metric(key, sighting.workers)
            failures.add_metric(key, sighting.failures)
        yield from (age, synced, workers, failures)
