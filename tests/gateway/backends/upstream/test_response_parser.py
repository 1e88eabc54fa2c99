"""One response as bytes arrive. `test_connection.py` and `test_oracle.py` have the rest, through a connection."""

import pytest

from gateway.backends.upstream.response_parser import ResponseLimits, ResponseParser

WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-a: b\r\n\r\nhello"


def fed(*packets: bytes, limits: ResponseLimits | None = None) -> tuple[ResponseParser, list[str | None]]:
    """A parser after *packets*, and what it said of each."""
    parser = ResponseParser(limits or ResponseLimits())
    return parser, [parser.feed(packet) for packet in packets]


def test_a_response_is_complete_at_its_end() -> None:
    parser, faults = fed(WHOLE[:20], WHOLE[20:-1], WHOLE[-1:])

    assert [None] * 3 == faults
    assert (200, True, True) == (parser.status, parser.is_complete, parser.keep_alive)
    assert (b"x-a", b"b") in parser.headers
    assert b"hello" == parser.take_body()
    assert [] == parser.pieces


def test_the_next_response_begins_empty() -> None:
    parser, _ = fed(WHOLE)
    parser.take_body()
    parser.expect(is_head_request=True)

    assert (0, [], False, 0) == (parser.status, parser.headers, parser.is_complete, parser.unread_bytes)
    assert parser.feed(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n") is None
    assert (True, False) == (parser.is_complete, parser.keep_alive)


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"SSH-2.0\r\n\r\n", "invalid HTTP/1.1 in the response head"),
        (
            b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 3 + b"\r\n",
            "the worker sent too many header fields in the response head",
        ),
        (
            b"HTTP/1.1 200 OK\r\na: " + b"b" * 200 + b"\r\n\r\n",
            "the worker sent too many header bytes in the response head",
        ),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
            "the worker used an unsupported transfer coding (only chunked is allowed) in the response head",
        ),
        (b"HTTP/1.1 200 OK\r\na: " + b"b" * 200, "too many bytes in headers or framing"),
    ],
)
def test_a_response_beyond_the_limits_is_not_accepted(raw: bytes, fault: str) -> None:
    parser, faults = fed(raw, limits=ResponseLimits(max_headers=2, max_head_bytes=100))

    assert str(faults[0]).startswith(fault)
    assert not parser.keep_alive


def test_bytes_after_a_response_only_end_the_connection() -> None:
    parser, faults = fed(WHOLE + WHOLE)

    assert [None] == faults
    assert (True, False) == (parser.is_complete, parser.keep_alive)


def test_unread_body_pauses_reading() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n"
    parser, _ = fed(head, b"x" * 200, limits=ResponseLimits(high_water_bytes=100))
    assert parser.must_pause()
    parser.take_body()

    assert not parser.must_pause()


def test_a_close_ends_a_response_without_a_length() -> None:
    without, _ = fed(b"HTTP/1.1 200 OK\r\n\r\nhello")
    with_length, _ = fed(WHOLE[:-1])

    assert [True, False] == [without.close(), with_length.close()]
