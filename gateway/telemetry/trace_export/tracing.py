"""Destinations of traces: one for the operator, and one for each team that has configured a destination."""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.proxy.completed_requests import CompletedRequest
from gateway.proxy.tracing.tracer import Tracer, Tracers
from gateway.telemetry.trace_export.delivery import CompletedTrace, Delivery
from gateway.telemetry.trace_export.langfuse import PATH as LANGFUSE_PATH

OPERATOR = "operator"
TEAM = "team:"
CLOSE_S = 5.0
"""Maximum seconds for sending queued traces on shutdown, for all destinations together."""


class TracesUnavailableError(Exception):
    """Traces are configured, but the optional dependency that they need is not installed."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """Endpoint that receives traces."""

    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    content: bool = False
    """Whether the receiver gets prompts and answers."""
    langfuse: bool | None = None
    """Whether the receiver gets Langfuse's attributes. If None, the endpoint URL determines this."""


@dataclass(frozen=True, slots=True)
class TraceRules:
    """Trace options that all receivers have in common."""

    ratio: float
    service_name: str
    resource: Mapping[str, str]
    content_bytes: int
    max_waiting: int
    """Maximum number of traces in the queue for one receiver. Further traces are dropped."""
    timeout_s: float


class Destination:
    """Receiver of traces with its delivery queue."""

    __slots__ = ("delivery", "receiver")

    def __init__(self, receiver: Receiver, delivery: Delivery) -> None:
        self.receiver = receiver
        self.delivery = delivery


class Tracing(Collector):
    """Observer of completed requests that passes their traces to the destinations, if there are any."""

    def __init__(
        self,
        rules: TraceRules,
        operator: Receiver | None,
        teams: Mapping[str, Receiver],
        *,
        instance: str,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        """Create the trace export. *instance* identifies this gateway among others of the same service.

        Raises:
            TracesUnavailableError: if the optional dependency for traces is not installed.
        """
        self._rules = rules
        self._instance = instance
        self._clock = clock
        self._wall_clock = wall_clock
        self._rng = rng
        self._operators: Destination | None = None
        if operator is not None:
            self._operators = self._destination(OPERATOR, operator)
        self._teams: Mapping[str, Destination] = {}
        self._former: list[Delivery] = []  # former destinations: what they have is sent
        self.tracers = Tracers()
        self.use(self.destinations(teams))

    def destinations(self, teams: Mapping[str, Receiver]) -> Mapping[str, Destination]:
        """Return the destinations for *teams*, by team name, without using them yet.

        Raises:
            TracesUnavailableError: if the optional dependency for traces is not installed.
        """
        return {name: self._kept(name, said) or self._destination(TEAM + name, said) for name, said in teams.items()}

    def use(self, teams: Mapping[str, Destination]) -> None:
        """Use the destinations *teams* from now on. Other trace settings cannot change after startup."""
        staying = {id(destination) for destination in teams.values()}
        left = [each.delivery for each in self._teams.values() if id(each) not in staying]
        self._teams = teams
        for delivery in left:
            delivery.close(0.0)  # its thread sends what waits, and ends
        self._former += left
        self.tracers.current = self._tracer() if self._operators is not None or teams else None

    def observe(self, completed: list[CompletedRequest]) -> None:
        """Pass the traces of *completed* requests to their destinations. This method never waits."""
        if self._operators is None and not self._teams:
            return
        for ending in completed:
            trace = ending.exchange.trace
            if trace is not None:
                self._hand_over(CompletedTrace(ending.exchange, trace, ending.at))

    def _hand_over(self, ended: CompletedTrace) -> None:
        if self._operators is not None:
            self._operators.delivery.offer(ended)
        team = None if ended.exchange.team is None else self._teams.get(ended.exchange.team)
        if team is not None:
            team.delivery.offer(ended)

    def keeps_content(self, team: str | None) -> bool:
        """Return whether any destination receives the prompts and answers of *team*. None stands for requests without a
        team.
        """
        of_team = None if team is None else self._teams.get(team)
        return any(each is not None and each.receiver.content for each in (self._operators, of_team))

    def close(self) -> None:
        """Send queued traces for at most `CLOSE_S` seconds. This blocks, so call it in a thread."""
        deliveries = [*self._former, *(each.delivery for each in self._all())]
        for delivery in deliveries:
            delivery.close(0.0)
        until = self._clock() + CLOSE_S
        for delivery in deliveries:
            delivery.close(max(0.0, until - self._clock()))

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "warmgate_traces",
            "Traces by destination and outcome: sent, dropped, failed.",
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
            self._rules.ratio,
            max_content_bytes=self._rules.content_bytes,
            keeps_content=self.keeps_content,
            may_keep_content=any(each.receiver.content for each in self._all()),
            clock=self._clock,
            wall_clock=self._wall_clock,
            rng=self._rng,
        )

    def _kept(self, team: str, receiver: Receiver) -> Destination | None:
        former = self._teams.get(team)
        return former if former is not None and former.receiver == receiver else None

    def _destination(self, name: str, receiver: Receiver) -> Destination:
        try:
            from gateway.telemetry.trace_export.otlp import Encoder, rejected_spans  # noqa: PLC0415  # an extra that few have
        except ImportError:
            place = "tracing" if name == OPERATOR else "teams[].tracing"
            raise TracesUnavailableError(
                f"{place}.endpoint needs the extra warmgate[otel], which is not installed."
            ) from None
        from gateway.telemetry.trace_export.sender import Sender  # noqa: PLC0415

        is_langfuse = LANGFUSE_PATH in receiver.endpoint if receiver.langfuse is None else receiver.langfuse
        encoder = Encoder(
            self._resource(),
            version("warmgate"),
            with_content=receiver.content,
            for_langfuse=is_langfuse,
            is_teams=name != OPERATOR,
        )
        send = Sender(receiver.endpoint, receiver.headers, timeout_s=self._rules.timeout_s, rejected=rejected_spans)
        return Destination(receiver, Delivery(name, encoder, send, most_waiting=self._rules.max_waiting))

    def _resource(self) -> Mapping[str, str]:
        return {
            "service.name": self._rules.service_name,
            "service.version": version("warmgate"),
            "service.instance.id": self._instance,
            **self._rules.resource,
        }
