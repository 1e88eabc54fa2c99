"""One request of Envoy; tests/gateway/picker/test_picker.py has the order of its messages."""

from collections.abc import Sequence

from gateway.backends.backend import Call
from gateway.picker import wire
from gateway.picker.stream import EnvoyStream

HEAD = wire.ProcessingRequest(
    request_headers=wire.HttpHeaders(),
    protocol_config=wire.ProtocolConfiguration(
        request_body_mode=wire.BUFFERED, response_body_mode=wire.FULL_DUPLEX_STREAMED
    ),
)

STREAMED_HEAD = wire.ProcessingRequest(
    request_headers=wire.HttpHeaders(),
    protocol_config=wire.ProtocolConfiguration(
        request_body_mode=wire.FULL_DUPLEX_STREAMED, response_body_mode=wire.FULL_DUPLEX_STREAMED
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


async def test_no_body_follows_an_early_answer() -> None:
    """Envoy may answer itself while the gateway checks a body that has arrived, and expects no more of it then."""
    line = Sent()
    stream = EnvoyStream(line, STREAMED_HEAD, reports_served=False)
    call = Call(b"POST", b"/", [], b"", False, "")
    await stream.begin_to(call, "10.0.0.1:80")
    stream.take(wire.ProcessingRequest(request_body=wire.HttpBody(body=b"{}", end_of_stream=True)))
    received = await stream.receive()
    status = wire.HeaderValue(key=":status", raw_value=b"503")
    head = wire.HttpHeaders(headers=wire.HeaderMap(headers=[status]), end_of_stream=True)
    stream.take(wire.ProcessingRequest(response_headers=head))
    sent = len(line.messages)
    await stream.complete(call.changed(body=b"{}"))
    reply, _ = await stream.reply()

    assert (b"{}", False, 503) == (received["body"], received["more_body"], reply.status)
    assert (1, 1) == (sent, len(line.messages))
