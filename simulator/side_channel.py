"""Transfer of computed KV blocks between simulated workers. A request and its answer are one line of JSON each.

NIXL has such a port in addition to the data transfer, called its side channel, and SGLang has one called its bootstrap
server. The simulator transfers no cache contents, because they would be made up. The answer only says whether the
blocks exist.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import msgspec

MOST_BYTES = 64 * 1024


class Question(msgspec.Struct):
    key: str
    """Key of the KV blocks that another worker requests."""
    waits: bool = False
    """Whether to wait for KV blocks that have not been computed yet."""


class Computed(msgspec.Struct, omit_defaults=True):
    """Answer to a request for KV blocks: the number of tokens in the blocks, or the reason why there are no blocks."""

    tokens: int = 0
    error: str | None = None


class NotFetched(Exception):
    """Error: the other worker is unreachable or does not have the requested blocks."""


class Hold:
    """Held KV blocks that another worker will fetch once."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.computed: asyncio.Future[int] = loop.create_future()
        """Number of tokens in the held blocks, once they are computed."""
        self.fetched: asyncio.Future[None] = loop.create_future()

    def give_up(self) -> None:
        """Record that the KV blocks will never be computed or no longer exist."""
        if not self.computed.done():
            self.computed.cancel()
        if not self.fetched.done():
            self.fetched.cancel()


class SideChannel:
    """Port of one worker for requests for KV blocks. A request waits at most *wait_s* seconds for uncomputed blocks."""

    def __init__(self, *, wait_s: float) -> None:
        self._wait_s = wait_s
        self._holds: dict[str, Hold] = {}
        self._answering: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.port = 0

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator["SideChannel"]:
        """Answer requests for KV blocks on *host* and *port*. If the port is 0, the system chooses a port.

        Raises:
            OSError: if the port cannot be bound. `filename` is the address.
        """
        try:
            server = await asyncio.start_server(self._serve, host, port, limit=MOST_BYTES)
        except OSError as error:
            raise OSError(error.errno, error.strerror, f"{host} port {port}") from None
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for hold in self._holds.values():
                hold.give_up()
            for writer in self._answering.values():
                writer.transport.abort()
            if self._answering:
                await asyncio.wait(self._answering)
            await server.wait_closed()

    def knows(self, key: str) -> bool:
        """Return whether KV blocks are held or awaited under *key*."""
        return key in self._holds

    def hold(self, key: str) -> Hold:
        """Return the hold (blocks for one fetch) for *key*, and create it if it does not exist."""
        return self._holds.setdefault(key, Hold())

    def keep(self, key: str, tokens: int, *, lease_s: float, when_over: Callable[[], None]) -> None:
        """Offer *tokens* tokens of KV blocks under *key* for *lease_s* seconds or one fetch, then call *when_over*."""
        hold = self.hold(key)
        timer = asyncio.get_running_loop().call_later(lease_s, self.forget, key)

        def over(_: asyncio.Future[None]) -> None:
            timer.cancel()
            when_over()

        hold.fetched.add_done_callback(over)
        hold.computed.set_result(tokens)

    def forget(self, key: str) -> None:
        """Remove *key*, so that other workers can no longer fetch its KV blocks."""
        hold = self._holds.pop(key, None)
        if hold is not None:
            hold.give_up()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "the handler is a coroutine"
        self._answering[task] = writer
        try:
            question = msgspec.json.decode(await reader.readline(), type=Question)
            writer.write(msgspec.json.encode(await self._answer(question)) + b"\n")
            await writer.drain()
        except (msgspec.DecodeError, OSError, ValueError):
            pass  # a stranger, or gone: no one reads the answer
        finally:
            await _closed(writer)
            del self._answering[task]

    async def _answer(self, question: Question) -> Computed:
        if not question.waits and not self.knows(question.key):
            return Computed(error="the blocks do not exist")
        hold = self.hold(question.key)
        await asyncio.wait({hold.computed}, timeout=self._wait_s)
        if not hold.computed.done() or hold.computed.cancelled() or hold.fetched.done():
            self.forget(question.key)
            return Computed(error="the blocks were not computed, or have expired")
        hold.fetched.set_result(None)
        self._holds.pop(question.key, None)
        return Computed(tokens=hold.computed.result())


async def fetched(host: str, port: int, question: Question, *, timeout_s: float) -> int:
    """Fetch the KV blocks named in *question*, and return their number of tokens. No one can fetch them again.

    Raises:
        NotFetched: if the worker is unreachable, does not have the blocks, or does not answer in time.
    """
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port, limit=MOST_BYTES)
            try:
                writer.write(msgspec.json.encode(question) + b"\n")
                reported = msgspec.json.decode(await reader.readline(), type=Computed)
            finally:
                await _closed(writer)
    except (OSError, ValueError, msgspec.DecodeError) as error:  # TimeoutError is an OSError
        raise NotFetched(str(error) or type(error).__name__) from error
    if reported.error is not None:
        raise NotFetched(reported.error)
    return reported.tokens


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
