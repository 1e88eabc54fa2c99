"""Exchange of load between gateway replicas, with its components and metrics."""

import secrets
import socket
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.models.registry import Models
from gateway.storage.redis_link import redis_link
from gateway.workers.replicas.bus import Bus, ReplicaKey
from gateway.workers.replicas.channel import ReplicaChannel
from gateway.workers.replicas.hub_bus import FixedKey, HubBus
from gateway.workers.replicas.outbox import BookingOutbox
from gateway.workers.replicas.peers import Peers
from gateway.workers.replicas.redis_bus import RedisBus
from gateway.workers.replicas.shared_key import KEY_BYTES, SharedKey
from gateway.workers.replicas.wire import SENDER_BYTES
from routing.fleet import Fleet
from routing.rendezvous import Rendezvous


@dataclass(frozen=True, slots=True)
class ReplicaRules:
    """Settings for finding and monitoring other gateway replicas through the Redis server at *url*, or other processes
    of this gateway through *hub*.
    """

    url: str = field(repr=False)
    timeout_s: float
    group: str
    tie_s: float
    heartbeat_s: float
    dead_after_s: float
    hub: "HubPlace | None" = None


@dataclass(frozen=True, slots=True)
class HubPlace:
    """Place of a process at the hub that its supervisor runs for all processes."""

    descriptor: int
    """File descriptor of a connected socket."""
    key: bytes = field(repr=False)
    """Key for prompt hashes of all processes."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """Components of the load exchange that fleets need when they are created."""

    rules: ReplicaRules
    outbox: BookingOutbox
    ties: Rendezvous
    key: bytes = field(repr=False)
    """Key for prompt hashes, used until the shared key of the other replicas is known."""


def sharing_by(rules: ReplicaRules) -> Sharing:
    """Return the components for the load exchange according to *rules*. No message has been sent yet."""
    key = secrets.token_bytes(KEY_BYTES) if rules.hub is None else rules.hub.key
    return Sharing(rules, BookingOutbox(), Rendezvous(rules.tie_s), key)


class Replicas(Collector):
    """Exchange of this gateway's load with other replicas. If *sharing* is None, it does nothing.

    *on_key* is called with the key for prompt hashes before the first hash of another replica arrives. `begin`, `loops`
    and `aclose` belong to the gateway's lifespan. The other methods are for metrics and probes.
    """

    def __init__(
        self,
        sharing: Sharing | None,
        models: Models,
        *,
        on_key: Callable[[bytes], None],
        clock: Callable[[], float],
    ) -> None:
        """Create the exchange. Raise ValueError if the address of the store is invalid."""
        self._models = models
        self._parts: _Parts | None = None
        if sharing is None:
            return
        rules = sharing.rules
        bus, key = _bus_of(sharing)
        peers = Peers(self._fleet_of, dead_after_s=rules.dead_after_s)
        exchange = ReplicaChannel(
            bus,
            sender=secrets.token_bytes(SENDER_BYTES),
            key=key,
            outbox=sharing.outbox,
            peers=peers,
            clock=clock,
            on_key=on_key,
            on_change=self._changed,
            beat_s=rules.heartbeat_s,
            dead_after_s=rules.dead_after_s,
        )
        self._parts = _Parts(bus, peers, exchange)

    async def begin(self) -> None:
        """Adopt the shared key if the store answers. Otherwise, the key is adopted later, which clears the index."""
        if self._parts is not None:
            await self._parts.exchange.agree()

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """Return the coroutines that must run until shutdown."""
        return [] if self._parts is None else [self._parts.bus.run(), self._parts.exchange.run()]

    async def aclose(self) -> None:
        """Close the connection to the store. Call this after the coroutines in `loops` have ended."""
        if self._parts is not None:
            await self._parts.bus.aclose()

    @property
    def heard(self) -> int:
        """Number of live gateway replicas including this gateway, or 0 if the load exchange is disabled."""
        return 0 if self._parts is None else 1 + len(self._parts.peers)

    def report(self) -> dict[str, Any]:
        """Return the status for `/readyz`, or an empty dict if the load exchange is disabled."""
        if self._parts is None:
            return {}
        return {"heard": self.heard, "is_connected": self._parts.exchange.is_connected}

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the load exchange. If it is disabled, they have no values."""
        replicas = GaugeMetricFamily(
            "warmgate_replicas", "Number of live gateway replicas, including this one.", labels=()
        )
        bookings = GaugeMetricFamily(
            "warmgate_replica_bookings",
            "Number of open requests that other gateway replicas have sent to workers.",
            labels=(),
        )
        messages = CounterMetricFamily(
            "warmgate_replica_messages",
            "Messages exchanged with other gateway replicas, by direction.",
            labels=("direction",),
        )
        dropped = CounterMetricFamily(
            "warmgate_replica_dropped", "Log entries of this gateway that no other replica received.", labels=()
        )
        gaps = CounterMetricFamily(
            "warmgate_replica_gaps", "Number of gaps in the log entries of other replicas.", labels=()
        )
        lag = GaugeMetricFamily(
            "warmgate_replica_lag_seconds",
            "Seconds from sending a message through the store to receiving it.",
            labels=(),
        )
        if self._parts is not None:
            exchange, peers = self._parts.exchange, self._parts.peers
            replicas.add_metric((), self.heard)
            bookings.add_metric((), peers.booked)
            for direction in ("sent", "heard", "unreadable"):
                messages.add_metric((direction,), getattr(exchange, direction))
            dropped.add_metric((), exchange.dropped)
            gaps.add_metric((), peers.gaps)
            if exchange.lag_s is not None:
                lag.add_metric((), exchange.lag_s)
        yield from (replicas, bookings, messages, dropped, gaps, lag)

    def _fleet_of(self, model: str) -> Fleet | None:
        found = self._models.get(model)
        return None if found is None else found.fleet

    def _changed(self, models: Iterable[str]) -> None:
        """Wake the queued requests that wait for workers of *models*."""
        for name in models:
            model = self._models.get(name)
            if model is not None:
                model.dispatch_queue.turn()


@dataclass(frozen=True, slots=True)
class _Parts:
    bus: Bus
    peers: Peers
    exchange: ReplicaChannel


def _bus_of(sharing: Sharing) -> tuple[Bus, ReplicaKey]:
    """Return the channel and the key. Raise ValueError if the address of the store is invalid."""
    rules = sharing.rules
    if rules.hub is not None:
        return HubBus(socket.socket(fileno=rules.hub.descriptor)), FixedKey(sharing.key)
    link = redis_link(rules.url, timeout_s=rules.timeout_s)
    return RedisBus(link, rules.group), SharedKey(link, rules.group, own=sharing.key)
