"""One request of Envoy; tests/gateway/picker/test_picker.py has the order of its messages."""

from collections.abc import Sequence

from gateway.picker import wire
from gateway.picker.stream import EnvoyStream

HEAD = wire.ProcessingRequest(
    request_headers=wire.HttpHeaders(),
    protocol_config=wire.ProtocolConfiguration(
        request_body_mode=wire.BUFFERED, response_body_mode=wire.FULL_DUPLEX_STREAMED
    ),
)


class Sent:
    """Line that remembers what was sent."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []

    def send(self, messages: Sequence[bytes]) -> None:
        self.messages += messages

    async def drain(self) -> None:
        pass

    def resume(self) -> None:
        pass


async def test_the_end_of_a_stream_counts_once() -> None:
    """Nothing is written after it."""
    line = Sent()
    stream = EnvoyStream(line, HEAD, reports_served=False)
    stream.close()
    stream.close()
    await stream.response.send({"type": "http.response.start", "status": 503, "headers": []})
    await stream.response.send({"type": "http.response.body", "body": b"{}"})

    assert [{"type": "http.disconnect"}] * 2 == [await stream.receive(), await stream.receive()]
    assert [] == line.messages
