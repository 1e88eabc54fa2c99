from typing import Any

import httptools
import pytest

from gateway.server.head_reader import HeadReader, ParsingStopped
from gateway.server.scope import ScopeBuilder
from gateway.server.shared_state import HeaderNames


def reader(max_bytes: int = 8192) -> HeadReader:
    return HeadReader(ScopeBuilder(None, None, "http", {}), HeaderNames(), max_bytes)


def parse(head: HeadReader, *pieces: bytes) -> Any:
    """Return the parser after *pieces* of one head."""
    parser = httptools.HttpRequestParser(head)
    for piece in pieces:
        head.piece = piece
        parser.feed_data(piece)
        if piece is not pieces[-1]:
            assert head.keep(piece)
    return parser


def test_a_head_defines_the_framing_of_its_body() -> None:
    """Names of headers are in lower case."""
    head = reader()
    parser = parse(head, b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
    was_open = head.is_open
    scope = head.complete(parser)

    assert scope is not None
    assert [(b"host", b"a"), (b"content-length", b"5"), (b"expect", b"100-continue")] == scope["headers"]
    assert (5, False, True) == (head.content_length, head.is_chunked, head.expects_continue)
    assert (True, False) == (was_open, head.is_open)


def test_a_head_may_come_in_pieces() -> None:
    """Its line is checked as a whole."""
    head = reader()
    parser = parse(head, b"GET ", b"/a HT", b"TP/1.1\r\nhost: a\r\n\r\n")
    scope = head.complete(parser)

    assert scope is not None
    assert "/a" == scope["path"]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "'host' header is missing"),
        (b"GET  / HTTP/1.1\r\nhost: a\r\n\r\n", "separated by single spaces"),
        (b"GET ftp://a/ HTTP/1.1\r\nhost: a\r\n\r\n", "must be a path, or an http://"),
        (b"GET / HTTP/1.1\r\nhost: a\r\n" + b"x: y\r\n" * 100 + b"\r\n", "more than 100 header fields"),
        (b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 8192 + b"\r\n\r\n", "larger than 8192 bytes"),
    ],
)
def test_a_fault_names_what_is_wrong(request_: bytes, message: str) -> None:
    head = reader()
    parser = parse(head, request_)

    with pytest.raises(ParsingStopped):
        head.complete(parser)
    assert head.fault is not None
    assert message in head.fault.message


@pytest.mark.parametrize("value", [b"gzip", b"gzip, chunked"])
def test_other_encodings_than_chunked_are_refused(value: bytes) -> None:
    head = reader()
    head.on_message_begin()

    with pytest.raises(ParsingStopped):
        head.on_header(b"Transfer-Encoding", value)
    assert head.fault is not None
    assert "must be 'chunked'" in head.fault.message


def test_an_unfinished_head_is_bounded() -> None:
    head = reader(max_bytes=10)
    head.on_message_begin()

    assert [True, False] == [head.keep(b"a" * 10), head.keep(b"a")]


def test_an_offer_of_another_protocol_is_left_out() -> None:
    """CONNECT cannot be served without it."""
    head = reader()
    offer = b"GET /a HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"
    with pytest.raises(httptools.HttpParserUpgrade):
        parse(head, offer)
    parser = httptools.HttpRequestParser(object())
    with pytest.raises(httptools.HttpParserUpgrade):
        parser.feed_data(offer)
    connect = httptools.HttpRequestParser(object())
    with pytest.raises(httptools.HttpParserUpgrade):
        connect.feed_data(b"CONNECT a:443 HTTP/1.1\r\nhost: a\r\n\r\n")

    assert b"GET /a HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\n\r\n" == head.without_upgrade(parser)
    assert head.without_upgrade(connect) is None
