"""Where traces go: to the operator's destination, and to that of the team whose request it was."""

import random
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.endings import EndedRequest
from gateway.settings import Settings, SettingsError
from gateway.settings.tracing import DestinationSettings
from gateway.tracing.delivery import Delivery
from gateway.tracing.ended import Ended
from gateway.tracing.langfuse import PATH as LANGFUSE_PATH
from gateway.tracing.tracer import Tracer, Tracers

OPERATOR = "operator"
TEAM = "team:"
CLOSE_S = 5.0
"""For what waits at a stop, of all destinations together."""


class Destination:
    """One address with its thread, as long as its settings stay the same."""

    __slots__ = ("delivery", "settings")

    def __init__(self, settings: DestinationSettings, delivery: Delivery) -> None:
        self.settings = settings
        self.delivery = delivery


class Tracing(Collector):
    """An `Observer` of endings, and what a registry collects. Without destinations it is nothing but that."""

    def __init__(
        self,
        settings: Settings,
        *,
        instance: str,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        """*instance* tells this gateway from others of the same service.

        Raises:
            SettingsError: the extra that traces need is not installed.
        """
        self._group = settings.tracing
        self._instance = instance
        self._clock = clock
        self._wall_clock = wall_clock
        self._rng = rng
        self._operators: Destination | None = None
        if self._group.endpoint is not None:
            self._operators = self._destination(OPERATOR, self._group)
        self._teams: Mapping[str, Destination] = {}
        self._former: list[Delivery] = []  # of settings that were: what they have is sent
        self.tracers = Tracers()
        self.use(self.destinations(settings))

    def destinations(self, settings: Settings) -> Mapping[str, Destination]:
        """Those of the teams of *settings*, by team; nothing has changed yet.

        Raises:
            SettingsError: as above.
        """
        wanted = {team.name: team.tracing for team in settings.teams if team.tracing is not None}
        return {name: self._kept(name, said) or self._destination(TEAM + name, said) for name, said in wanted.items()}

    def use(self, teams: Mapping[str, Destination]) -> None:
        """Tell *teams* from now on; whatever else the settings say of traces counts from the start only."""
        staying = {id(destination) for destination in teams.values()}
        left = [each.delivery for each in self._teams.values() if id(each) not in staying]
        self._teams = teams
        for delivery in left:
            delivery.close(0.0)  # its thread sends what waits, and ends
        self._former += left
        self.tracers.current = self._tracer() if self._operators is not None or teams else None

    def observe(self, endings: list[EndedRequest]) -> None:
        """Hand the traces of *endings*, where they have any, to whom they are for. Never waits."""
        if self._operators is None and not self._teams:
            return
        for ending in endings:
            trace = ending.exchange.trace
            if trace is not None:
                self._hand_over(Ended(ending.exchange, trace, ending.at))

    def _hand_over(self, ended: Ended) -> None:
        if self._operators is not None:
            self._operators.delivery.offer(ended)
        team = None if ended.exchange.team is None else self._teams.get(ended.exchange.team)
        if team is not None:
            team.delivery.offer(ended)

    def close(self) -> None:
        """Send what waits, for some seconds at most. Waits: to be called in a thread."""
        deliveries = [*self._former, *(each.delivery for each in self._all())]
        for delivery in deliveries:
            delivery.close(0.0)
        until = self._clock() + CLOSE_S
        for delivery in deliveries:
            delivery.close(max(0.0, until - self._clock()))

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "warmgate_traces",
            "Traces by destination and by what became of them: sent, dropped, failed.",
            labels=("destination", "outcome"),
        )
        counts: dict[tuple[str, str], int] = {}
        for delivery in (*self._former, *(each.delivery for each in self._all())):
            for outcome in ("sent", "dropped", "failed"):
                key = (delivery.name, outcome)
                counts[key] = counts.get(key, 0) + delivery.counts[outcome]
        for labels, count in counts.items():
            family.add_metric(labels, count)
        yield family

    def _all(self) -> list[Destination]:
        return [*self._teams.values(), *([] if self._operators is None else [self._operators])]

    def _tracer(self) -> Tracer:
        return Tracer(
            self._group.ratio,
            most_content_bytes=self._group.content_bytes,
            keeps_content=self._keeps_content,
            may_keep_content=any(each.settings.content for each in self._all()),
            clock=self._clock,
            wall_clock=self._wall_clock,
            rng=self._rng,
        )

    def _keeps_content(self, team: str | None) -> bool:
        """Whether somebody is told what *team* asks and gets; None: whoever is of none."""
        of_team = None if team is None else self._teams.get(team)
        return any(each is not None and each.settings.content for each in (self._operators, of_team))

    def _kept(self, team: str, settings: DestinationSettings) -> Destination | None:
        former = self._teams.get(team)
        return former if former is not None and former.settings == settings else None

    def _destination(self, name: str, settings: DestinationSettings) -> Destination:
        try:
            from gateway.tracing.otlp import Encoder, rejected_spans  # noqa: PLC0415  # an extra that few have
        except ImportError:
            place = "tracing" if name == OPERATOR else "teams[].tracing"
            raise SettingsError([f"{place}.endpoint needs the extra warmgate[otel]."]) from None
        from gateway.tracing.sender import Sender  # noqa: PLC0415

        assert settings.endpoint is not None, "settings see to that"
        is_langfuse = LANGFUSE_PATH in settings.endpoint if settings.langfuse is None else settings.langfuse
        encoder = Encoder(
            self._resource(),
            version("warmgate"),
            tells_content=settings.content,
            for_langfuse=is_langfuse,
            is_teams=name != OPERATOR,
        )
        send = Sender(
            settings.endpoint, settings.sent_headers, timeout_s=self._group.timeout_s, rejected=rejected_spans
        )
        return Destination(settings, Delivery(name, encoder, send, most_waiting=self._group.most_waiting))

    def _resource(self) -> Mapping[str, str]:
        return {
            "service.name": self._group.service_name,
            "service.version": version("warmgate"),
            "service.instance.id": self._instance,
            **self._group.resource,
        }
