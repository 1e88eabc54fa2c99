"""Metrics of reloads: of the configuration, and of the workers that discovery finds."""

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
    """The outcome of one reload of the configuration."""

    outcome: Outcome
    sentences: tuple[str, ...] = ()
    """The faults because of which it was refused."""
    needs_restart: tuple[str, ...] = ()
    """Changed settings that take effect after a restart only."""


class Outcomes:
    """Counts of outcomes, and whether the last one was good."""

    def __init__(self) -> None:
        self.counts: Counter[Outcome] = Counter()
        self.is_last_good = True

    def count(self, outcome: Outcome) -> None:
        self.counts[outcome] += 1
        self.is_last_good = outcome != "refused"


class Reloads(Collector):
    """Outcomes of reloads of the configuration, and of the workers found for each model."""

    def __init__(self, *, wall_clock: Callable[[], float]) -> None:
        """*wall_clock* gives seconds since 1970. The configuration at the start counts as applied."""
        self._wall_clock = wall_clock
        self._configuration = Outcomes()
        self._applied_at = wall_clock()
        self._found: dict[str, Outcomes] = {}
        self.needs_restart: tuple[str, ...] = ()
        """Settings in the file that take effect after a restart only."""

    def count(self, outcome: Outcome) -> None:
        """Count one reload of the configuration."""
        self._configuration.count(outcome)
        if outcome == "applied":
            self._applied_at = self._wall_clock()

    def count_found(self, model: str, outcome: Outcome) -> None:
        """Count one set of workers found for *model*, if that model is followed."""
        if model in self._found:
            self._found[model].count(outcome)

    def follow(self, models: Collection[str]) -> None:
        """Count from now on the workers found for *models*, and for no others."""
        self._found = {model: self._found.get(model) or Outcomes() for model in models}

    def collect(self) -> Iterator[Metric]:
        yield from self._of_configuration()
        yield from self._of_found()

    def _of_configuration(self) -> Iterator[Metric]:
        ours = self._configuration
        reloads = CounterMetricFamily(
            "warmgate_config_reloads", "Reloads of the configuration, by outcome.", labels=("outcome",)
        )
        for outcome in OUTCOMES:
            reloads.add_metric((outcome,), ours.counts[outcome])
        yield reloads
        yield GaugeMetricFamily(
            "warmgate_config_last_reload_successful", "0 if the last configuration was refused.", ours.is_last_good
        )
        yield GaugeMetricFamily(
            "warmgate_config_last_applied_timestamp_seconds",
            "When the configuration last took effect, in seconds since 1970.",
            self._applied_at,
        )
        waiting = GaugeMetricFamily(
            "warmgate_config_needs_restart",
            "1 for each setting whose change needs a restart.",
            labels=("setting",),
        )
        for setting in self.needs_restart:
            waiting.add_metric((setting,), 1)
        yield waiting

    def _of_found(self) -> Iterator[Metric]:
        updates = CounterMetricFamily(
            "warmgate_discovery_updates",
            "Sets of workers that discovery found, by outcome.",
            labels=("model", "outcome"),
        )
        good = GaugeMetricFamily(
            "warmgate_discovery_last_update_successful",
            "0 if the last set of workers was refused.",
            labels=("model",),
        )
        for model, found in self._found.items():
            for outcome in OUTCOMES:
                updates.add_metric((model, outcome), found.counts[outcome])
            good.add_metric((model,), found.is_last_good)
        yield updates
        yield good
