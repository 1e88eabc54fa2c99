"""A receiver of webhooks over a real socket, which can refuse what it gets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from standardwebhooks import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr"


@dataclass
class AlertReceiver:
    """*status* answers each request; None: none is answered."""

    status: int | None = 200
    url: str = ""
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    """Headers and body of each accepted request."""
    attempts: int = 0
    at_once: int = 0
    """Requests that have no answer yet."""
    most_at_once: int = 0
    headers: str = ""
    """Further headers of each answer, each with its line break."""

    def alerts(self) -> list[dict[str, Any]]:
        """Verify each accepted request with the library of Standard Webhooks, and return the contents."""
        return [Webhook(SECRET).verify(body.decode(), headers) for headers, body in self.got]

    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _ in self.got]

    async def attempted(self, count: int = 1) -> None:
        """Wait until there were *count* more requests."""
        wanted = self.attempts + count
        async with asyncio.timeout(60):
            while self.attempts < wanted:
                await asyncio.sleep(0.01)

    async def accepted(self, count: int) -> None:
        """Wait until *count* different alerts were accepted."""
        async with asyncio.timeout(60):
            while len(set(self.ids())) < count:
                await asyncio.sleep(0.01)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
            body = await reader.readexactly(int(headers["content-length"]))
            self.attempts += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            if self.status is None:
                await reader.read()  # until the gateway gives up
            else:
                if self.status == 200:
                    self.got.append((headers, body))
                answer = f"HTTP/1.1 {self.status} X\r\ncontent-length: 0\r\nconnection: close\r\n{self.headers}\r\n"
                writer.write(answer.encode())
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # of a gateway that was killed
        finally:
            self.at_once = max(0, self.at_once - 1)
            writer.close()


@asynccontextmanager
async def alert_receiver(status: int | None = 200) -> AsyncIterator[AlertReceiver]:
    receiver = AlertReceiver(status)
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    try:
        yield receiver
    finally:
        server.close()
