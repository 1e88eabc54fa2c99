from gateway.backends.backend import Headers
from gateway.upstream.headers import end_to_end, ends_with_connection, is_plainly_framed


def test_names_are_lower_case_and_values_trimmed() -> None:
    """Fields come out as ASGI wants them, in the order in which they came."""
    received: Headers = [(b"Content-Type", b"application/json \t"), (b"X-Twice", b"1"), (b"X-Twice", b"2")]

    assert [(b"content-type", b"application/json"), (b"x-twice", b"1"), (b"x-twice", b"2")] == end_to_end(received)


def test_hop_by_hop_fields_stay_behind() -> None:
    """Fields about one connection are not passed on."""
    received: Headers = [
        (b"Connection", b"keep-alive"),
        (b"Keep-Alive", b"timeout=5"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Upgrade", b"h2c"),
        (b"Trailer", b"x-sum"),
        (b"Date", b"today"),
    ]

    assert [(b"date", b"today")] == end_to_end(received)


def test_a_worker_does_not_say_what_the_gateway_left_out() -> None:
    """Only the gateway's own backend for Bedrock does, and its header reaches the caller."""
    assert [(b"date", b"today")] == end_to_end([(b"X-Warmgate-Dropped-Params", b"seed"), (b"Date", b"today")])


def test_fields_named_in_connection_stay_behind() -> None:
    """Whatever ``connection`` names belongs to the connection as well, in any case and order."""
    received: Headers = [
        (b"X-Hop", b"1"),
        (b"Connection", b"close, x-hop"),
        (b"connection", b"X-Other"),
        (b"x-other", b"2"),
    ]

    assert [] == end_to_end(received)


def test_a_body_without_length_or_chunks_ends_with_the_connection() -> None:
    """Only content-length or a last coding ``chunked`` tells the end of a body otherwise."""
    assert [False, False, False, True, True] == [
        ends_with_connection([(b"Content-Length", b"5")]),
        ends_with_connection([(b"Transfer-Encoding", b"Chunked")]),
        ends_with_connection([(b"transfer-encoding", b"gzip, chunked ")]),
        ends_with_connection([(b"transfer-encoding", b"gzip")]),
        ends_with_connection([(b"content-type", b"text/plain")]),
    ]


def test_chunked_is_the_only_coding_that_is_undone() -> None:
    """Of others nobody downstream would be told, and twice chunked is an attempt to hide where a body ends."""
    assert [True, True, False, False, False, False] == [
        is_plainly_framed([(b"content-length", b"5")]),
        is_plainly_framed([(b"Transfer-Encoding", b" Chunked ")]),
        is_plainly_framed([(b"transfer-encoding", b"gzip")]),
        is_plainly_framed([(b"transfer-encoding", b"gzip, chunked")]),
        is_plainly_framed([(b"transfer-encoding", b"chunked"), (b"transfer-encoding", b"chunked")]),
        is_plainly_framed([(b"transfer-encoding", b"")]),
    ]
