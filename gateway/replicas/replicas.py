"""Several gateways that share what they know, put together from settings. Without a store in Redis there is one."""

import secrets
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.models import Models
from gateway.replicas.exchange import Exchange
from gateway.replicas.outbox import Outbox
from gateway.replicas.peers import Peers
from gateway.replicas.shared_key import KEY_BYTES, SharedKey
from gateway.replicas.wire import SENDER_BYTES
from gateway.settings import Settings, SettingsError
from gateway.storage.redis_link import RedisLink, redis_link
from gateway.stores import SQLITE
from routing.fleet import Fleet
from routing.rendezvous import Rendezvous


@dataclass(frozen=True, slots=True)
class Sharing:
    """What fleets need to know of replicas when they are made."""

    outbox: Outbox
    ties: Rendezvous
    key: bytes = field(repr=False)
    """Under which prompts are hashed until that of the others is known."""


def sharing_of(settings: Settings) -> Sharing | None:
    """None where nothing is shared: there is no Redis, or it is not wanted."""
    url = settings.store.url
    if url is None or url.startswith(SQLITE) or not settings.replicas.share:
        return None
    return Sharing(Outbox(), Rendezvous(settings.replicas.tie_s), secrets.token_bytes(KEY_BYTES))


class Replicas(Collector):
    """The others, and what is said among them; None of it where *sharing* is None.

    *on_key* is told under which key to hash, before any hash of others is heard. `begin`, `loops` and `aclose` are for
    the gateway's lifespan, the rest is for metrics and probes.
    """

    def __init__(
        self,
        sharing: Sharing | None,
        settings: Settings,
        models: Models,
        *,
        on_key: Callable[[bytes], None],
        clock: Callable[[], float],
    ) -> None:
        self._models = models
        self._parts: _Parts | None = None
        if sharing is None:
            return
        assert settings.store.url is not None, "without a store nothing is shared"
        try:
            link = redis_link(settings.store.url, timeout_s=settings.store.timeout_s)
        except ValueError as fault:
            raise SettingsError([f"{fault}."]) from None
        peers = Peers(self._fleet_of, dead_after_s=settings.replicas.dead_after_s)
        exchange = Exchange(
            link,
            settings.replicas.group,
            sender=secrets.token_bytes(SENDER_BYTES),
            key=SharedKey(link, settings.replicas.group, own=sharing.key),
            outbox=sharing.outbox,
            peers=peers,
            clock=clock,
            on_key=on_key,
            on_change=self._changed,
            beat_s=settings.replicas.heartbeat_s,
            dead_after_s=settings.replicas.dead_after_s,
        )
        self._parts = _Parts(link, peers, exchange)

    async def begin(self) -> None:
        """Find the key of the others, if the store is there: else it is found later, and the index begins anew."""
        if self._parts is not None:
            await self._parts.exchange.agree()

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """To be run until cancelled."""
        return [] if self._parts is None else [self._parts.link.run(), self._parts.exchange.run()]

    async def aclose(self) -> None:
        """To be awaited when the loops have ended."""
        if self._parts is not None:
            await self._parts.link.aclose()

    @property
    def heard(self) -> int:
        """Replicas that are heard, this one among them; 0 where nothing is shared."""
        return 0 if self._parts is None else 1 + len(self._parts.peers)

    def told(self) -> dict[str, Any]:
        """For /readyz: nothing where nothing is shared."""
        if self._parts is None:
            return {}
        return {"heard": self.heard, "is_connected": self._parts.exchange.is_connected}

    def collect(self) -> Iterator[Metric]:
        """Of one that shares nothing the metrics are there, without values."""
        replicas = GaugeMetricFamily("warmgate_replicas", "Gateways that are heard, this one among them.", labels=())
        bookings = GaugeMetricFamily(
            "warmgate_replica_bookings", "Requests on workers that other gateways have told of.", labels=()
        )
        messages = CounterMetricFamily(
            "warmgate_replica_messages", "Messages of this gateway, and of others.", labels=("direction",)
        )
        dropped = CounterMetricFamily(
            "warmgate_replica_dropped", "Entries of this gateway that reached nobody.", labels=()
        )
        gaps = CounterMetricFamily("warmgate_replica_gaps", "Times that entries of others were missing.", labels=())
        lag = GaugeMetricFamily(
            "warmgate_replica_lag_seconds", "What a message takes by way of the store, to here.", labels=()
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
        """Whoever waits for a worker may have one now."""
        for name in models:
            model = self._models.get(name)
            if model is not None:
                model.turnstile.turn()


@dataclass(frozen=True, slots=True)
class _Parts:
    link: RedisLink
    peers: Peers
    exchange: Exchange
