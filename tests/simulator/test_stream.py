from typing import Any

from simulator.exchange import HttpExchange
from simulator.sse import DONE, Event, Spelling
from simulator.stream import EventStream


class Sends:
    """Keeps what goes to the client."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def exchange(self) -> HttpExchange:
        async def receive() -> dict[str, Any]:
            raise AssertionError

        async def send(message: dict[str, Any]) -> None:
            self.messages.append(message)

        scope = {"method": "POST", "path": "/", "headers": [], "state": {"connection": None}}
        return HttpExchange(scope, receive, send)

    @property
    def parts(self) -> list[bytes]:
        return [message["body"] for message in self.messages if message.get("body")]


async def test_events_leave_as_they_are_written() -> None:
    """One piece for what is written at one time; the end closes the body."""
    sends = Sends()
    stream = EventStream(sends.exchange(), Spelling())
    await stream.start()
    await stream.write([Event({"a": 1}), Event({"a": 2})])
    await stream.write([])
    await stream.end([DONE])

    assert [b'data: {"a":1}\n\ndata: {"a":2}\n\n', b"data: [DONE]\n\n"] == sends.parts
    assert ("http.response.start", False) == (sends.messages[0]["type"], sends.messages[-1]["more_body"])


async def test_drips_cut_anywhere() -> None:
    """Two bytes at a time, through events and characters; together they are what was written."""
    sends = Sends()
    stream = EventStream(sends.exchange(), Spelling(line_end="crlf"), drip_bytes=2)
    await stream.start()
    await stream.end([Event({"a": "é€"})])

    assert 'data: {"a":"é€"}\r\n\r\n'.encode() == b"".join(sends.parts)
    assert {2} == {len(part) for part in sends.parts[:-1]}
