"""Publisher of the changes of one block pool. It collects the changes into batches, numbers the batches and sends them.

1. All changes within one iteration of the event loop form one batch, in the order in which they happened. An engine
   completes a step in one iteration, so there is one batch per step, as in vLLM. With `batch_s`, all changes within
   `batch_s` seconds form one batch.
2. A batch is sent before the event loop does any other work, so clients never see the tokens of a step before its
   events.
3. Within a batch, changes of the host tier come last, because vLLM asks its connector for them after the block pool.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence

from engine_model.blocks import PLAIN, BlockHash, BlockScope
from simulator.cache_event import (
    BlockOffloaded,
    BlocksDropped,
    BlocksRemoved,
    BlocksStored,
    CacheCleared,
    CacheEvent,
    HostEvent,
)
from simulator.event_log import EventLog
from simulator.event_options import EventOptions
from simulator.event_sockets import EventSockets
from simulator.event_wire import EventWire, encode_batch


class EventPublisher:
    """Receiver that publishes changes of a cache and its host tier as KV events from one event loop.

    *unix* returns the seconds since 1970.
    """

    def __init__(
        self, options: EventOptions, *, wire: EventWire, host: str, unix: Callable[[], float], rank: int = 0
    ) -> None:
        self.options = options
        self._wire = wire
        self._unix = unix
        self._rank = rank
        self.log = EventLog(first=options.first_sequence, limit=options.buffer_steps)
        self.sockets = EventSockets(options, host=host, replay=self.log.since)
        self._collected: list[CacheEvent] = []
        self._collected_of_host: list[HostEvent] = []
        self._held: deque[bytes] = deque()
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None
        self.is_paused = False

    def stored(
        self,
        hashes: Sequence[BlockHash],
        parent: BlockHash | None,
        token_ids: Sequence[int],
        scope: BlockScope = PLAIN,
    ) -> None:
        after = None if parent is None else _number(parent)
        self._collect(BlocksStored(list(map(_number, hashes)), after, list(token_ids), scope))

    def removed(self, hashes: Sequence[BlockHash]) -> None:
        gone = list(map(_number, hashes))
        last = self._collected[-1] if self._collected else None
        if self._wire.merges_removals and isinstance(last, BlocksRemoved):
            self._collected[-1] = BlocksRemoved([*last.hashes, *gone])
        else:
            self._collect(BlocksRemoved(gone))

    def cleared(self) -> None:
        # What the host tier reported before must not come after, where it would bring cleared blocks back.
        self._collected += self._collected_of_host
        self._collected_of_host.clear()
        self._collect(CacheCleared())

    def offloaded(self, hashes: Sequence[Hashable]) -> None:
        self._collected_of_host += [BlockOffloaded(_number(block_hash)) for block_hash in hashes]
        self._arm()

    def dropped(self, hashes: Sequence[Hashable]) -> None:
        self._collected_of_host.append(BlocksDropped(list(map(_number, hashes))))
        self._arm()

    def pause(self) -> None:
        """Hold back all event batches from now on."""
        self.is_paused = True

    def resume(self) -> None:
        """Publish the event batches that were held back, and resume normal publishing."""
        self.is_paused = False
        while self._held:
            self._send(self._held.popleft())

    def restart(self, *, hangs_up: bool) -> None:
        """Restart the publisher like a restarted engine, without an event. *hangs_up* closes and reopens the sockets.

        Raises:
            OSError: if another process has taken an address in the meantime.
        """
        self._disarm()
        self._collected.clear()
        self._collected_of_host.clear()
        self._held.clear()
        self.log.restart()
        if hangs_up:
            self.sockets.close()
            self.sockets.open()

    def close(self) -> None:
        self._disarm()
        self.sockets.close()

    def _collect(self, event: CacheEvent) -> None:
        self._collected.append(event)
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        if self.options.batch_s:
            self._timer = loop.call_later(self.options.batch_s, self._flush)
        else:
            self._timer = loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._timer = None
        events = [*self._collected, *self._collected_of_host]
        payload = encode_batch(self._wire, events, unix_s=self._unix(), rank=self._rank)
        self._collected.clear()
        self._collected_of_host.clear()
        if self.is_paused:
            self._held.append(payload)
        else:
            self._send(payload)

    def _send(self, payload: bytes) -> None:
        batch = self.log.add(payload)
        if batch is not None:
            self.sockets.send(batch)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _number(block_hash: BlockHash) -> int:
    assert isinstance(block_hash, int), "only blocks of a trace have other ids"
    return block_hash
