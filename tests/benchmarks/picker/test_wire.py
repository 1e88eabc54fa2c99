"""The messages of the benchmark are those that the generated code of the picker reads and writes."""

import pytest

from benchmarks.picker import wire as written
from gateway.picker import wire


def test_headers_have_their_values_and_the_body_modes() -> None:
    message = wire.ProcessingRequest.FromString(
        written.headers_message(written.REQUEST_HEADERS, [(":path", "/v1"), ("a", "b")], mode=4)
    )

    headers = [(each.key, each.raw_value) for each in message.request_headers.headers.headers]
    assert [(":path", b"/v1"), ("a", b"b")] == headers
    assert (4, 4) == (message.protocol_config.request_body_mode, message.protocol_config.response_body_mode)


@pytest.mark.parametrize("is_last", [True, False])
def test_a_piece_of_a_body_is_read_as_it_was_written(is_last: bool) -> None:
    piece = b"x" * 300
    raw = written.body_message(written.REQUEST_BODY, piece, is_last=is_last)
    message = wire.ProcessingRequest.FromString(raw)

    assert (piece, is_last) == (message.request_body.body, message.request_body.end_of_stream)
    kind, content = written.kind_and_content(raw)
    assert (written.REQUEST_BODY, piece, is_last) == (kind, *written.piece_in(content))


def test_a_streamed_answer_is_read_as_it_was_written() -> None:
    raw = written.streamed_answer(written.BODY_OF_ANSWER, b"piece", is_last=True)
    message = wire.ProcessingResponse.FromString(raw)

    streamed = message.response_body.response.body_mutation.streamed_response
    assert (b"piece", True) == (streamed.body, streamed.end_of_stream)
    assert (b"piece", True) == written.streamed_piece_in(written.kind_and_content(raw)[1])


def test_a_body_that_is_not_streamed_is_an_error() -> None:
    with pytest.raises(ValueError, match="not streamed"):
        written.streamed_piece_in(b"")


def test_a_field_of_an_unknown_type_is_an_error() -> None:
    with pytest.raises(ValueError, match="wire type 5"):
        list(written.fields(b"\x0d\x00\x00\x00\x00"))
