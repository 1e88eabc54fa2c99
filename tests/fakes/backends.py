"""Backends without a network, named for how they behave. Each remembers its calls and the outcome of its replies."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from gateway.backends.backend import Call
from gateway.protocol.errors import ConnectFailed, ReplyBroken, UpstreamError, UpstreamTimeout
from gateway.protocol.headers import Headers

JSON: Headers = [(b"content-type", b"application/json")]
EVENTS: Headers = [(b"content-type", b"text/event-stream")]


Silence = Callable[[], Awaitable[bytes]]
"""What a read meets after the last piece, where that is not the end."""


class ScriptedReply:
    """Hands out its pieces one by one, then ends, or goes over to *then*."""

    def __init__(self, status: int, headers: Headers, pieces: Iterable[bytes], *, then: Silence | None = None) -> None:
        self.status = status
        self.headers = headers
        self.closed = False
        self._pieces = deque(pieces)
        self._then = then
        self._interrupted: asyncio.Future[bytes] | None = None
        self._error: UpstreamError | None = None
        self.idle_s: float | None = None
        """Time within which it expects the next piece."""

    @property
    def ended(self) -> bool:
        return self._then is None and not self._pieces

    async def read(self) -> bytes:
        assert not self.closed, "nobody reads what is closed"
        await asyncio.sleep(0)
        if self._error is not None:
            raise self._error
        if self._pieces:
            return self._pieces.popleft()
        return b"" if self._then is None else await self._meet(self._then)

    def expect_within(self, idle_s: float) -> None:
        self.idle_s = idle_s

    def interrupt(self, error: UpstreamError) -> None:
        self._error = error
        if self._interrupted is not None and not self._interrupted.done():
            self._interrupted.set_exception(error)

    async def _meet(self, then: Silence) -> bytes:
        """What comes *then*, unless somebody interrupts, or it takes longer than was expected."""
        self._interrupted = asyncio.get_running_loop().create_future()
        silence = asyncio.ensure_future(then())
        try:
            await asyncio.wait([silence, self._interrupted], timeout=self.idle_s, return_when=asyncio.FIRST_COMPLETED)
            if self._interrupted.done():
                return self._interrupted.result()
            if silence.done():
                return silence.result()
            raise UpstreamTimeout("the stream paused for too long", phase="idle")
        finally:
            if not silence.done():
                silence.cancel()
                await asyncio.wait([silence])

    async def aclose(self) -> None:
        await asyncio.sleep(0)  # a real one may have to wait before it is closed
        self.closed = True


class Fake:
    """A backend that remembers."""

    id = "w"

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.first_byte_s: list[float | None] = []
        """The patience of each of them."""
        self.replies: list[ScriptedReply] = []
        self.connections_open = 0
        self.is_closed = False
        self.was_abandoned = False
        self.is_retired = False

    @property
    def url(self) -> str:
        return f"http://{self.id}"

    async def send(self, call: Call, *, first_byte_s: float | None = None) -> ScriptedReply:
        self.calls.append(call)
        self.first_byte_s.append(first_byte_s)
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(first_byte_s):
                reply = await self._reply()
        except TimeoutError:
            raise UpstreamTimeout(f"{self.id} did not answer in time", phase="first_byte") from None
        self.replies.append(reply)
        return reply

    def addressed(self, call: Call) -> Call:
        return call

    def abandon_unanswered(self) -> None:
        self.was_abandoned = True

    def retire(self) -> None:
        self.is_retired = True

    async def aclose(self) -> None:
        self.is_closed = True

    async def _reply(self) -> ScriptedReply:
        raise NotImplementedError


class Answers(Fake):
    """Gives every call the same whole answer, in pieces."""

    def __init__(self, status: int = 200, *pieces: bytes, headers: Headers = JSON) -> None:
        super().__init__()
        self.status = status
        self._headers = headers
        self._pieces = pieces or (b"{}",)

    async def _reply(self) -> ScriptedReply:
        return ScriptedReply(self.status, self._headers, self._pieces)


class Streams(Fake):
    """Streams *pieces* and ends the body, with or without ``[DONE]`` as the pieces say."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__()
        self._pieces = pieces

    async def _reply(self) -> ScriptedReply:
        return ScriptedReply(200, EVENTS, self._pieces)


class Refuses(Fake):
    """No one listens."""

    async def _reply(self) -> ScriptedReply:
        raise ConnectFailed(f"{self.id} refused the connection")


class Hangs(Fake):
    """Streams *pieces*, then says nothing for ever; without pieces not even a status comes."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__()
        self._pieces = pieces
        self.hanging = asyncio.Event()
        """Somebody waits, in vain."""
        self.given_up = False
        """Anyone who waited has been cancelled."""

    async def _reply(self) -> ScriptedReply:
        if not self._pieces:
            await self._hang()
        return ScriptedReply(200, EVENTS, self._pieces, then=self._hang)

    async def _hang(self) -> bytes:
        self.hanging.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.given_up = True
            raise
        return b""


class BreaksAfter(Fake):
    """Hands out the first *n* of *pieces*, then the connection is cut; after 0 of them not even a status came."""

    def __init__(self, n: int, *pieces: bytes, headers: Headers = EVENTS) -> None:
        super().__init__()
        self._headers = headers
        self._pieces = pieces[:n]

    async def _reply(self) -> ScriptedReply:
        if not self._pieces:
            await self._break()
        return ScriptedReply(200, self._headers, self._pieces, then=self._break)

    async def _break(self) -> bytes:
        raise ReplyBroken("the connection was cut")


class Raises(Fake):
    """Hands out *pieces*, if any, then fails with *error*, whatever that is."""

    def __init__(self, error: Exception, *pieces: bytes) -> None:
        super().__init__()
        self._error = error
        self._pieces = pieces

    async def _reply(self) -> ScriptedReply:
        if not self._pieces:
            await self._raise()
        return ScriptedReply(200, EVENTS, self._pieces, then=self._raise)

    async def _raise(self) -> bytes:
        raise self._error
