from benchmarks.picker import wire
from benchmarks.picker.bare import chosen, process
from gateway.picker import wire as generated


class Context:
    """Server side of a call, which keeps the answers."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    async def write(self, message: bytes) -> None:
        self.written.append(message)


def test_the_endpoint_is_named_in_a_header() -> None:
    message = generated.ProcessingResponse.FromString(chosen(b"10.0.0.1:8000"))

    (option,) = message.request_headers.response.header_mutation.set_headers
    assert ("x-gateway-destination-endpoint", b"10.0.0.1:8000", 2) == (
        option.header.key,
        option.header.raw_value,
        option.append_action,
    )


async def test_bodies_return_as_they_are() -> None:
    async def incoming() -> object:
        yield wire.headers_message(wire.REQUEST_HEADERS, [], mode=wire.FULL_DUPLEX_STREAMED)
        yield wire.body_message(wire.REQUEST_BODY, b"a", is_last=False)
        yield wire.body_message(wire.REQUEST_BODY, b"b", is_last=True)
        yield wire.headers_message(wire.RESPONSE_HEADERS, [])
        yield wire.body_message(wire.RESPONSE_BODY, b"c", is_last=True)

    context = Context()
    await process(incoming(), context)

    assert [
        chosen(b"127.0.0.1:1"),
        wire.streamed_answer(wire.BODY_OF_REQUEST, b"a", is_last=False),
        wire.streamed_answer(wire.BODY_OF_REQUEST, b"b", is_last=True),
        wire.field(wire.HEADERS_OF_ANSWER, b""),
        wire.streamed_answer(wire.BODY_OF_ANSWER, b"c", is_last=True),
    ] == context.written
