"""A caller that talks ASGI to an application directly: what it sends is scripted, what it gets is recorded."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

Message = MutableMapping[str, Any]
App = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Coroutine[Any, Any, None]
]


class Caller:
    """One HTTP request. The body comes in *pieces*; the caller stays until `leave`."""

    def __init__(
        self,
        *pieces: bytes,
        method: str = "POST",
        path: str = "/v1/chat/completions",
        query: bytes = b"",
        headers: list[tuple[bytes, bytes]] | None = None,
        finishes_body: bool = True,
    ) -> None:
        self.scope: Message = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query,
            "root_path": "",
            "headers": headers or [],
        }
        count = len(pieces) or 1
        self._requests: deque[Message] = deque(
            {"type": "http.request", "body": piece, "more_body": i < count or not finishes_body}
            for i, piece in enumerate(pieces or (b"",), start=1)
        )
        self._gone = asyncio.Event()
        self.watched = asyncio.Event()
        """The application has read the body, and waits for the caller to leave."""
        self.messages: list[Message] = []
        self.got_body = asyncio.Event()
        """Set as soon as some of the body has come."""

    async def call(self, app: App) -> None:
        await app(self.scope, self.receive, self.send)

    def leave(self) -> None:
        self._gone.set()

    async def receive(self) -> Message:
        if self._requests:
            return self._requests.popleft()
        self.watched.set()
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        assert not self.ended, "nothing follows the end of a response"
        assert message["type"] == ("http.response.body" if self.messages else "http.response.start")
        self.messages.append(message)
        if message.get("body"):
            self.got_body.set()

    @property
    def ended(self) -> bool:
        """A complete response has come."""
        return len(self.messages) > 1 and not self.messages[-1].get("more_body", False)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def header_list(self) -> list[tuple[bytes, bytes]]:
        return list(self.messages[0]["headers"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.header_list)

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.messages[1:])

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@asynccontextmanager
async def running(app: App) -> AsyncIterator[None]:
    """The lifespan of *app*, as a server runs it; an error in it comes out here."""
    inbox: asyncio.Queue[Message] = asyncio.Queue()
    inbox.put_nowait({"type": "lifespan.startup"})
    listed: list[str] = []
    started = asyncio.Event()

    async def send(message: Message) -> None:
        listed.append(message["type"])
        started.set()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, inbox.get, send))
        await started.wait()
        yield
        inbox.put_nowait({"type": "lifespan.shutdown"})
    assert ["lifespan.startup.complete", "lifespan.shutdown.complete"] == listed
