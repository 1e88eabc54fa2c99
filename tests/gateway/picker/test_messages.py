"""Values go in, messages of Envoy come out, and the other way round."""

from typing import Any

import pytest

from gateway.picker import messages, wire
from gateway.picker.heads import HeaderChanges
from gateway.picker.messages import MAX_PIECE_BYTES

KEPT = HeaderChanges([], [])


def streamed(message: Any) -> tuple[int, bool]:
    body = message.request_body.response.body_mutation.streamed_response
    return len(body.body), body.end_of_stream


def test_headers_have_bytes_or_text() -> None:
    """Envoy sends bytes unless it is configured otherwise."""
    headers = [wire.HeaderValue(key="X-A", raw_value=b"\xff"), wire.HeaderValue(key="b", value="ü")]
    head = wire.HttpHeaders(headers=wire.HeaderMap(headers=headers))

    assert [(b"x-a", b"\xff"), (b"b", "ü".encode())] == messages.headers_in(head)


def test_a_message_without_metadata_allows_all_endpoints() -> None:
    message = messages.request_in(messages.encoded(wire.ProcessingRequest()))

    assert (None, None) == (messages.subset_in(message), messages.served_in(message))


@pytest.mark.parametrize(
    ("size", "has_trailers", "pieces"),
    [
        (0, False, [(0, True)]),
        (MAX_PIECE_BYTES, False, [(MAX_PIECE_BYTES, True)]),
        (MAX_PIECE_BYTES + 1, False, [(MAX_PIECE_BYTES, False), (1, True)]),
        (1, True, [(1, False)]),
    ],
)
def test_a_body_has_exactly_one_end(size: int, has_trailers: bool, pieces: list[tuple[int, bool]]) -> None:
    """The end is that of the trailers if there are any."""
    head, *rest = messages.request_to("a:1", KEPT, b"x" * size, has_trailers=has_trailers)
    body = [each for each in rest if each.HasField("request_body")]

    assert ("a:1", pieces) == (
        head.dynamic_metadata["envoy.lb"]["x-gateway-destination-endpoint"],
        [streamed(each) for each in body],
    )
    assert has_trailers is rest[-1].HasField("request_trailers")


def test_a_header_that_repeats_is_added() -> None:
    """The first value replaces those of the message."""
    mutation = messages.answer_head(HeaderChanges([(b"a", b"1"), (b"a", b"2")], [b"b"])).response_headers.response
    options = mutation.header_mutation.set_headers

    assert [2, 0] == [option.append_action for option in options]
    assert ["b"] == list(mutation.header_mutation.remove_headers)


@pytest.mark.parametrize(("status", "sent"), [(429, 429), (529, 500), (499, 400)])
def test_envoy_accepts_only_known_statuses(status: int, sent: int) -> None:
    answer = messages.immediate(status, [(b"content-length", b"1"), (b"a", b"b")], b"x").immediate_response

    assert (sent, b"x", ["a"]) == (
        *(answer.status.code, answer.body),
        [option.header.key for option in answer.headers.set_headers],
    )
