"""One request of Envoy; tests/gateway/picker/test_picker.py has the order of its messages."""

from typing import Any

from gateway.picker import wire
from gateway.picker.stream import EnvoyStream

HEAD = wire.ProcessingRequest(
    request_headers=wire.HttpHeaders(),
    protocol_config=wire.ProtocolConfiguration(
        request_body_mode=wire.BUFFERED, response_body_mode=wire.FULL_DUPLEX_STREAMED
    ),
)


async def test_a_stream_that_takes_no_message_has_ended() -> None:
    """The application gets the disconnect of a caller, and no error of gRPC. Nothing else is written."""
    written: list[Any] = []

    async def write(message: Any) -> None:
        written.append(message)
        raise RuntimeError("the RPC has finished")

    stream = EnvoyStream(write, HEAD, reports_served=False)
    await stream.begin()
    await stream.begin()

    assert {"type": "http.disconnect"} == await stream.receive()
    assert 1 == len(written)


async def test_the_end_of_a_stream_counts_once() -> None:
    async def write(_: Any) -> None:
        raise AssertionError("nothing is written to a stream that has ended")

    stream = EnvoyStream(write, HEAD, reports_served=False)
    stream.close()
    stream.close()
    await stream.response.send({"type": "http.response.start", "status": 503, "headers": []})
    await stream.response.send({"type": "http.response.body", "body": b"{}"})

    assert [{"type": "http.disconnect"}] * 2 == [await stream.receive(), await stream.receive()]
