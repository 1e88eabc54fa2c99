"""Pulls of KV blocks from the host tier of another simulated worker, as with the p2p tier of vLLM's offloading.

A request whose ``kv_transfer_params.remote_kv_source`` names another worker pulls the blocks that this worker lacks
(vllm/v1/kv_offload/tiering/p2p). The blocks arrive in this worker's host tier, and the engine loads them from there.
Blocks that the other worker does not have are computed. The simulator transfers no cache contents, because they would
be made up: the other worker only reports how many of the blocks it holds.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import msgspec

from engine_model.blocks import BlockPool
from engine_model.host_tier import PullTiming
from engine_model.request import EngineRequest
from simulator.roles import Half, WholeRequest, read_transfer
from simulator.sse import Json

MAX_QUESTION_BYTES = 16 * 1024 * 1024
"""Maximum length of a question. A prompt of a million tokens has 62,500 blocks, whose hashes take 1.3 MB."""
TIMEOUT_S = 5.0
"""Seconds after which a worker computes the blocks that another worker does not send."""


class Question(msgspec.Struct):
    """Blocks of a prompt that another worker wants to pull, from the first one that it lacks."""

    hashes: list[int]


class Found(msgspec.Struct):
    """Number of leading blocks of a question that the host tier holds."""

    blocks: int


class PullPort:
    """Port at which other workers pull blocks from the host tier of *pool*."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self.port = 0

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator["PullPort"]:
        """Answer questions on *host* and *port*. If the port is 0, the system chooses a port.

        Raises:
            OSError: if the port cannot be bound. `filename` is the address.
        """
        try:
            server = await asyncio.start_server(self._serve, host, port, limit=MAX_QUESTION_BYTES)
        except OSError as error:
            raise OSError(error.errno, error.strerror, f"{host} port {port}") from None
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            question = msgspec.json.decode(await reader.readline(), type=Question)
            writer.write(msgspec.json.encode(Found(self._blocks(question.hashes))) + b"\n")
            await writer.drain()
        except (msgspec.MsgspecError, OSError, ValueError):
            pass  # a stranger, or gone: no one reads the answer
        finally:
            writer.close()

    def _blocks(self, hashes: Sequence[int]) -> int:
        host = self._pool.host
        if host is None:
            return 0
        blocks = host.match(hashes)
        host.touch(hashes[:blocks])
        return blocks


class PullingWorker:
    """Role of a worker that handles whole requests, and can pull blocks into the host tier of *pool*.

    A second of *timing* takes 1 / *speed* seconds, or no time if *speed* is 0.
    """

    def __init__(self, pool: BlockPool, timing: PullTiming, speed: float) -> None:
        self._pool = pool
        self._timing = timing
        self._s_per_s = 1.0 / speed if speed > 0 else 0.0

    @property
    def reported(self) -> Json:
        return {}

    def half(self, body: bytes, request_id: str) -> Half | None:  # noqa: ARG002
        params = read_transfer(body)
        source = None if params is None else params.remote_kv_source
        return None if source is None else _Pulling(self, source.remote_host, source.remote_port)

    async def pull(self, request: EngineRequest, host: str, port: int) -> None:
        """Pull the blocks of *request* that this worker lacks from the worker at *host* and *port*."""
        pool = self._pool
        hashes = request.block_hashes[: (request.prompt_tokens - 1) // pool.block_size]
        begin = len(pool.match(hashes, len(hashes)))
        begin += len(pool.loadable(hashes, begin, len(hashes)))
        if pool.host is None or begin == len(hashes):
            return
        blocks = min(
            await asked(host, port, Question([block for block in hashes[begin:] if isinstance(block, int)])),
            len(hashes) - begin,
        )
        if blocks:
            await asyncio.sleep(self._timing.pull_s(blocks * pool.block_size) * self._s_per_s)
            pool.host.store(hashes[: begin + blocks])


class _Pulling(WholeRequest):
    def __init__(self, worker: PullingWorker, host: str, port: int) -> None:
        self._worker = worker
        self._host = host
        self._port = port

    async def before(self, requests: Sequence[EngineRequest]) -> None:
        for request in requests:
            await self._worker.pull(request, self._host, self._port)


async def asked(host: str, port: int, question: Question) -> int:
    """Return the number of leading blocks of *question* at *host* and *port*, or 0 if no worker answers there."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(msgspec.json.encode(question) + b"\n")
                return msgspec.json.decode(await reader.readline(), type=Found).blocks
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
    except (OSError, msgspec.MsgspecError, ValueError):  # TimeoutError is an OSError
        return 0


@asynccontextmanager
async def pulling(
    pool: BlockPool, timing: PullTiming, *, host: str, port: int, speed: float
) -> AsyncIterator[PullingWorker]:
    """Yield the role of a worker that pulls blocks, and from which other workers can pull blocks at *port*.

    Raises:
        OSError: if the port cannot be bound.
    """
    async with PullPort(pool).listening(host, port):
        yield PullingWorker(pool, timing, speed)
