"""Exchange of reservations on workers with other gateway replicas over a channel.

The channel carries frames as in gateway/workers/replicas/wire.py.

1. Requests never wait for this exchange. Without the channel, this gateway uses only its own state.
2. An entry is sent immediately if nothing was sent for `GATHER_S`. Otherwise it waits and is sent with others.
3. A replica receives its own messages too. They show that its subscription works and how long messages take.
4. After any failure, the replica starts over: it reads the shared key, subscribes, and requests snapshots from all
   replicas.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any

from gateway.protocol.errors import StoreUnavailable
from gateway.workers.replicas.bus import Bus, ReplicaKey, Subscription
from gateway.workers.replicas.outbox import BookingOutbox
from gateway.workers.replicas.peers import DEAD_AFTER_S, Peers
from gateway.workers.replicas.wire import (
    Beat,
    Farewell,
    Message,
    SnapshotRequest,
    UnreadableFrame,
    decoded,
    encoded,
    sender_of,
)

_log = logging.getLogger(__name__)

GATHER_S = 0.005
"""Minimum seconds between two messages. The delay does not matter, because a prefill takes longer."""
BEAT_S = 1.0
KEY_EVERY_S = 5.0
"""Seconds between two checks whether the shared key still exists. Redis can lose its data while the connection stays
open.
"""
AGAIN_S, MAX_AGAIN_S = 0.05, 1.0
"""Initial and maximum seconds between two connection attempts. The delay doubles after each failure."""


class ReplicaChannel:
    """Connection to the other gateway replicas on *bus*. *sender* is a unique id of 16 bytes.

    *on_key* is called when the shared key has changed. *on_change* is called with the names of models whose load on
    other replicas has changed.
    """

    def __init__(
        self,
        bus: Bus,
        *,
        sender: bytes,
        key: ReplicaKey,
        outbox: BookingOutbox,
        peers: Peers,
        clock: Callable[[], float],
        on_key: Callable[[bytes], None],
        on_change: Callable[[Iterable[str]], None],
        beat_s: float = BEAT_S,
        dead_after_s: float = DEAD_AFTER_S,
    ) -> None:
        self._bus = bus
        self._sender = sender
        self._key = key
        self._peers = peers
        self._clock = clock
        self._on_key = on_key
        self._on_change = on_change
        self._beat_s = beat_s
        self._dead_after_s = dead_after_s
        self._outbox = outbox
        self._snapshot_is_wanted = False
        self._asks: list[SnapshotRequest] = []
        self._beat_sent = 0.0, b""
        """Time when the last heartbeat was sent, and the heartbeat itself."""
        self._heard_at = 0.0
        self._has_logged_loss = False
        """Whether the log already contains a message about the lost connection."""
        self.is_connected = False
        """Whether the gateway receives at least its own messages."""
        self.lag_s: float | None = None
        """Seconds from sending the last heartbeat to receiving it, or None while not connected."""
        self.sent = 0
        self.heard = 0
        """Number of messages received from other replicas."""
        self.unreadable = 0

    @property
    def dropped(self) -> int:
        """Number of log entries that no replica received."""
        return self._outbox.dropped

    async def agree(self) -> bool:
        """Adopt the key of the other gateway replicas. Return whether the store answered."""
        try:
            if await self._key.agree():
                self._on_key(self._key.value)
        except StoreUnavailable:
            return False
        return True

    async def run(self) -> None:
        """Publish and receive messages until canceled. Then, send a farewell message if possible."""
        pause_s = AGAIN_S
        try:
            while True:
                began_at = self._clock()
                try:
                    await self._connected()
                except* StoreUnavailable as group:
                    self._lost(group.exceptions[0])
                except* Exception as group:  # noqa: BLE001  # whatever it is, requests are answered all the same
                    _log.error("the exchange of messages with other replicas failed and restarts", exc_info=group)
                    self._lost(None)
                pause_s = AGAIN_S if self._clock() - began_at > MAX_AGAIN_S else min(2 * pause_s, MAX_AGAIN_S)
                await self._wait(pause_s)
        finally:
            if self.is_connected:
                with suppress(StoreUnavailable):
                    await self._publish(Farewell())

    # ---- one connection

    async def _connected(self) -> None:
        if await self._key.agree():
            self._on_key(self._key.value)
        messages = await self._bus.subscribe()
        try:
            self._heard_at = self._clock()
            self._asks.append(SnapshotRequest())
            # If one of its tasks fails at the moment of a cancellation, a task group raises only the failure, and the
            # cancellation is lost. So the failure is raised here.
            lost: asyncio.Future[StoreUnavailable] = asyncio.get_running_loop().create_future()
            async with asyncio.TaskGroup() as tasks:
                for work in (self._listen(messages), self._tell(), self._beat()):
                    tasks.create_task(_until_lost(work, lost))
                raise await lost
        finally:
            await messages.aclose()

    def _lost(self, fault: BaseException | None) -> None:
        if not self._has_logged_loss:
            _log.warning(
                "messages of other replicas cannot be received; this gateway uses only its own state: %s",
                fault or "a fault",
            )
        self._has_logged_loss = True
        self.is_connected = False
        self.lag_s = None

    async def _wait(self, pause_s: float) -> None:
        """Wait for *pause_s* seconds, and drop expired replicas in the meantime."""
        until = self._clock() + pause_s
        while (left_s := until - self._clock()) > 0.0:
            await asyncio.sleep(min(left_s, self._beat_s))
            self._expire()

    # ---- telling

    async def _tell(self) -> None:
        while True:
            await self._outbox.woken.wait()
            self._outbox.woken.clear()
            asks, self._asks = self._asks, []
            for ask in asks:
                await self._publish(ask)
            if self._snapshot_is_wanted:
                self._snapshot_is_wanted = False
                await self._publish(self._outbox.snapshot())
            while (batch := self._outbox.take()) is not None:
                try:
                    await self._publish(batch)
                except StoreUnavailable:
                    self._outbox.lost(len(batch.entries))
                    raise
            await asyncio.sleep(GATHER_S)

    async def _beat(self) -> None:
        looked_at = self._clock()
        self._outbox.woken.set()
        while True:
            beat = Beat(self._outbox.sent)
            self._beat_sent = self._clock(), encoded(self._sender, beat)
            await self._publish(beat)
            await asyncio.sleep(self._beat_s)
            now = self._clock()
            self._expire()
            self._ask()
            if now - self._heard_at > self._dead_after_s:
                raise StoreUnavailable("The store does not deliver messages")
            if now - looked_at >= KEY_EVERY_S:
                looked_at = now
                if await self._key.agree():
                    self._on_key(self._key.value)

    async def _publish(self, message: Message) -> None:
        await self._bus.publish(encoded(self._sender, message))
        self.sent += 1

    # ---- hearing

    async def _listen(self, messages: Subscription) -> None:
        while True:
            frame = await messages.next(self._dead_after_s)
            if frame is not None:
                self._hear(frame)

    def _hear(self, frame: bytes) -> None:
        now = self._clock()
        try:
            sender = sender_of(frame)
            if sender == self._sender:
                self._hear_itself(frame, now)
                return
            message = decoded(frame)
        except UnreadableFrame:
            self.unreadable += 1
            return
        self.heard += 1
        if isinstance(message, SnapshotRequest) and message.of in (b"", self._sender):
            self._snapshot_is_wanted = True
            self._outbox.woken.set()
        self._on_change(self._peers.hear(sender, message, now))
        self._look_who_listens()
        self._ask()

    def _hear_itself(self, frame: bytes, now: float) -> None:
        self._heard_at = now
        if not self.is_connected:
            self.is_connected = True
            self._has_logged_loss = False
            _log.info("messages of other replicas can be received again")
        sent_at, beat = self._beat_sent
        if frame == beat:
            self.lag_s = now - sent_at

    def _ask(self) -> None:
        asks = self._peers.to_ask(self._clock())
        if asks:
            self._asks += asks
            self._outbox.woken.set()

    def _expire(self) -> None:
        self._on_change(self._peers.expire(self._clock()))
        self._look_who_listens()

    def _look_who_listens(self) -> None:
        if len(self._peers) == 0:
            if self._outbox.is_heard:
                self._outbox.forget()
        else:
            self._outbox.is_heard = True


async def _until_lost(work: Coroutine[Any, Any, None], lost: "asyncio.Future[StoreUnavailable]") -> None:
    """Run *work*. If the store becomes unavailable, report this to *lost*."""
    try:
        await work
    except StoreUnavailable as fault:
        if not lost.done():
            lost.set_result(fault)
