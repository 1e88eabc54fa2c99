"""An engine's sockets for KV events, as vLLM opens them: PUB and ROUTER, over loopback. What they say, a test says."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import zmq
import zmq.asyncio

END = b"\xff" * 8
ANYWHERE = "tcp://127.0.0.1:0"
BIND_TIMEOUT_S = 10.0


class EventPublisher:
    """What an engine publishes, and keeps for replays."""

    def __init__(
        self,
        pub: zmq.asyncio.Socket,
        router: zmq.asyncio.Socket,
        *,
        topic: bytes,
        kept: int,
        topic_in_replay: bool,
        first_seq: int,
    ) -> None:
        self._pub = pub
        self._router = router
        self._topic = topic
        self._topic_in_replay = topic_in_replay
        self.endpoint = _last_endpoint(pub)
        self.replay_endpoint = _last_endpoint(router)
        self.ring: deque[tuple[int, bytes]] = deque(maxlen=kept)
        self.seq = first_seq
        self.asked: list[int] = []
        """First sequence of every replay that was asked for."""
        self.is_deaf = False
        """Replays that are asked for are not answered."""

    async def publish(self, payload: bytes) -> int:
        """Returns its sequence."""
        seq = self.keep(payload)
        await self.send([self._topic, seq.to_bytes(8, "big"), payload])
        return seq

    def keep(self, payload: bytes) -> int:
        seq = self.seq
        self.seq += 1
        self.ring.append((seq, payload))
        return seq

    async def send(self, frames: list[bytes]) -> None:
        """Publish whatever *frames* are."""
        await self._pub.send_multipart(frames)

    async def serve(self) -> None:
        """Serve replays until cancelled."""
        while True:
            frames = await self._router.recv_multipart()
            if len(frames) != 3 or self.is_deaf:
                continue
            client, _, start = frames
            self.asked.append(int.from_bytes(start, "big"))
            for seq, payload in list(self.ring):
                if seq >= self.asked[-1]:
                    await self._answer(client, self._topic, seq.to_bytes(8, "big"), payload)
            await self._answer(client, b"", END, b"")

    async def _answer(self, client: bytes, topic: bytes, seq: bytes, payload: bytes) -> None:
        # Beyond its high-water mark a ROUTER drops, it does not block: this returns at once.
        named = [topic] if self._topic_in_replay else []
        await self._router.send_multipart([client, b"", *named, seq, payload])


@asynccontextmanager
async def event_publisher(
    context: zmq.asyncio.Context,
    *,
    topic: bytes = b"",
    kept: int = 10_000,
    topic_in_replay: bool = True,
    replay_hwm: int = 1_000,
    first_seq: int = 0,
    dials: str | None = None,
    endpoint: str = ANYWHERE,
    replay_endpoint: str = ANYWHERE,
) -> AsyncIterator[EventPublisher]:
    """One that serves replays within the block, and whose ports are free some moments after it.

    It binds both sockets, or dials *dials* with the first. *kept* batches are kept for replays. Before vLLM 0.26
    answers came without the topic: *topic_in_replay* false. Up to 0.32 the ROUTER drops beyond a *replay_hwm* of 1,000.
    """
    pub, router = context.socket(zmq.PUB), context.socket(zmq.ROUTER)
    try:
        pub.setsockopt(zmq.SNDHWM, 100_000)
        router.setsockopt(zmq.SNDHWM, replay_hwm)
        if dials is None:
            await _bind(pub, endpoint)
        else:
            pub.connect(dials)
        await _bind(router, replay_endpoint)
        publisher = EventPublisher(
            pub, router, topic=topic, kept=kept, topic_in_replay=topic_in_replay, first_seq=first_seq
        )
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(publisher.serve())
            try:
                yield publisher
            finally:
                serving.cancel()
    finally:
        pub.close(linger=0)
        router.close(linger=0)


async def _bind(socket: zmq.asyncio.Socket, endpoint: str) -> None:
    """Also where a socket that was closed still has it: that takes some moments."""
    async with asyncio.timeout(BIND_TIMEOUT_S):
        while True:
            try:
                socket.bind(endpoint)
            except zmq.ZMQError as fault:
                if fault.errno != zmq.EADDRINUSE:
                    raise
                await asyncio.sleep(0.01)
            else:
                return


def _last_endpoint(socket: zmq.asyncio.Socket) -> str:
    last = socket.getsockopt(zmq.LAST_ENDPOINT)
    assert isinstance(last, bytes)
    return last.rstrip(b"\0").decode()
