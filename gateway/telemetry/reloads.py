"""Metrics about configuration reloads and about the workers found by discovery."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

Outcome = Literal["applied", "unchanged", "refused"]
OUTCOMES: tuple[Outcome, ...] = ("applied", "unchanged", "refused")


@dataclass(frozen=True, slots=True)
class Reloaded:
    """Outcome of a configuration reload."""

    outcome: Outcome
    sentences: tuple[str, ...] = ()
    """Errors for which the new configuration was rejected."""
    needs_restart: tuple[str, ...] = ()
    """Names of the changed settings that take effect only after a restart."""


class Outcomes:
    """Number of configuration reloads by outcome, and whether the last one succeeded."""

    def __init__(self) -> None:
        self.counts: Counter[Outcome] = Counter()
        self.is_last_good = True

    def count(self, outcome: Outcome) -> None:
        self.counts[outcome] += 1
        self.is_last_good = outcome != "refused"


class Reloads(Collector):
    """Outcomes of configuration reloads, and of worker discovery for each model."""

    def __init__(self, *, wall_clock: Callable[[], float]) -> None:
        """Create the metrics. *wall_clock* returns Unix seconds. The configuration at startup counts as applied."""
        self._wall_clock = wall_clock
        self._configuration = Outcomes()
        self._applied_at = wall_clock()
        self._found: dict[str, Outcomes] = {}
        self.needs_restart: tuple[str, ...] = ()
        """Names of changed settings in the configuration file that take effect only after a restart."""

    def count(self, outcome: Outcome) -> None:
        """Count one configuration reload."""
        self._configuration.count(outcome)
        if outcome == "applied":
            self._applied_at = self._wall_clock()

    def count_found(self, model: str, outcome: Outcome) -> None:
        """Count one discovery result for *model*, if discovery for this model is tracked."""
        if model in self._found:
            self._found[model].count(outcome)

    def follow(self, models: Collection[str]) -> None:
        """Track discovery results only for *models* from now on."""
        self._found = {model: self._found.get(model) or Outcomes() for model in models}

    def collect(self) -> Iterator[Metric]:
        yield from self._of_configuration()
        yield from self._of_found()

    def _of_configuration(self) -> Iterator[Metric]:
        ours = self._configuration
        reloads = CounterMetricFamily(
            "warmgate_config_reloads", "Configuration reloads by outcome.", labels=("outcome",)
        )
        for outcome in OUTCOMES:
            reloads.add_metric((outcome,), ours.counts[outcome])
        yield reloads
        yield GaugeMetricFamily(
            "warmgate_config_last_reload_successful",
            "1 if the last configuration reload succeeded, 0 if it was rejected.",
            ours.is_last_good,
        )
        yield GaugeMetricFamily(
            "warmgate_config_last_applied_timestamp_seconds",
            "Unix time in seconds at which a configuration last took effect.",
            self._applied_at,
        )
        waiting = GaugeMetricFamily(
            "warmgate_config_needs_restart",
            "1 for each changed setting that takes effect only after a restart.",
            labels=("setting",),
        )
        for setting in self.needs_restart:
            waiting.add_metric((setting,), 1)
        yield waiting

    def _of_found(self) -> Iterator[Metric]:
        updates = CounterMetricFamily(
            "warmgate_discovery_updates",
            "Discovery results (sets of workers) by outcome.",
            labels=("model", "outcome"),
        )
        good = GaugeMetricFamily(
            "warmgate_discovery_last_update_successful",
            "1 if the last set of workers was applied, 0 if it was rejected.",
            labels=("model",),
        )
        for model, found in self._found.items():
            for outcome in OUTCOMES:
                updates.add_metric((model, outcome), found.counts[outcome])
            good.add_metric((model,), found.is_last_good)
        yield updates
        yield good
