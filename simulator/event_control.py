"""Test interface /control/kv_events, which disturbs the stream of KV events."""

from typing import Annotated

import msgspec

from engine_model.blocks import BlockPool
from simulator.bodies import decode_body
from simulator.errors import EngineDead
from simulator.event_publisher import EventPublisher
from simulator.exchange import HttpExchange
from simulator.realtime import RealtimeEngine
from simulator.routes import RouteTable


class EventStreamState(msgspec.Struct, frozen=True):
    """State of the KV event stream as JSON, with the socket addresses that some engines report nowhere else."""

    endpoint: str
    replay_endpoint: str | None
    next_sequence: int
    replayable: int
    """Number of event batches that can be replayed."""
    to_lose: int
    paused: bool


class _Wish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """JSON body of a request to change the event stream. Missing fields keep their values."""

    lose: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Number of upcoming event batches to lose. Lost batches still consume sequence numbers."""
    lost_can_be_replayed: bool = True
    paused: bool | None = None


class _Restart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    hang_up: bool = False
    """Whether to close and reopen the sockets, like a new process."""


class EventControl:
    """Test interface for one rank's events, at ``/control`` for the first rank or ``/control/ranks/N`` for others."""

    def __init__(self, *, publisher: EventPublisher, pool: BlockPool, engine: RealtimeEngine, rank: int = 0) -> None:
        self._publisher = publisher
        self._pool = pool
        self._engine = engine
        self._path = f"/control/ranks/{rank}/kv_events" if rank else "/control/kv_events"

    def routes(self) -> RouteTable:
        return {
            self._path: {"GET": self._show, "POST": self._set},
            f"{self._path}/forget": {"POST": self._forget},
            f"{self._path}/restart": {"POST": self._restart},
        }

    async def _show(self, exchange: HttpExchange) -> None:
        log, sockets = self._publisher.log, self._publisher.sockets
        state = EventStreamState(
            endpoint=sockets.endpoint,
            replay_endpoint=sockets.replay_endpoint,
            next_sequence=log.next_sequence,
            replayable=log.kept,
            to_lose=log.to_lose,
            paused=self._publisher.is_paused,
        )
        await exchange.reply_json(state)

    async def _set(self, exchange: HttpExchange) -> None:
        wish = decode_body(await exchange.body(), _Wish)
        if wish.lose is not None:
            self._publisher.log.lose(wish.lose, can_be_replayed=wish.lost_can_be_replayed)
        if wish.paused is True:
            self._publisher.pause()
        elif wish.paused is False:
            self._publisher.resume()
        await self._show(exchange)

    async def _forget(self, exchange: HttpExchange) -> None:
        self._publisher.log.forget()
        await self._show(exchange)

    async def _restart(self, exchange: HttpExchange) -> None:
        """Simulate an engine restart that no event reports: requests fail, and the cache and numbering start over."""
        wish = decode_body(await exchange.body() or b"{}", _Restart)
        self._engine.fail(EngineDead())
        self._pool.clear()
        self._publisher.restart(hangs_up=wish.hang_up)
        await self._show(exchange)
