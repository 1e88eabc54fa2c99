"""Header fields that pass, in either direction."""

import pytest

from gateway.protocol.headers import (
    SESSION_HEADERS,
    SESSION_TOKEN_HEADER,
    Headers,
    downstream,
    end_to_end,
    ends_with_connection,
    fields,
    is_compressed,
    is_plainly_framed,
    of_another_body,
    request_id_of,
    upstream,
)

OURS = [(b"content-type", b"application/json"), (b"x-request-id", b"r-1")]


def test_end_to_end_headers_pass_in_their_order() -> None:
    """Unknown headers pass, also repeated ones."""
    given = [(b"x-tenant", b"blue"), (b"traceparent", b"00-1-2-01"), (b"x-tenant", b"green"), (b"accept", b"*/*")]

    assert OURS + given == upstream(given, b"r-1", b"application/json")


@pytest.mark.parametrize(
    "name",
    [
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    ],
)
def test_hop_by_hop_headers_stay_on_their_hop(name: bytes) -> None:
    """They are about the caller's connection, not about the worker's."""
    assert OURS == upstream([(name, b"close")], b"r-1", b"application/json")


@pytest.mark.parametrize("name", [b"authorization", b"x-api-key", b"api-key", b"cookie", b"proxy-authorization"])
def test_credentials_never_pass(name: bytes) -> None:
    """What a caller proves itself to the gateway with is nothing for a worker."""
    assert OURS == upstream([(name, b"Bearer sk-secret")], b"r-1", b"application/json")


@pytest.mark.parametrize("name", [*SESSION_HEADERS, SESSION_TOKEN_HEADER])
def test_sessions_never_pass_as_the_caller_names_them(name: bytes) -> None:
    """The gateway sends an id of its own, which no other team can send."""
    assert OURS == upstream([(name, b"s-1")], b"r-1", b"application/json")


@pytest.mark.parametrize("name", [b"host", b"content-length", b"expect", b"accept-encoding"])
def test_headers_of_the_callers_message_are_replaced(name: bytes) -> None:
    """The worker has another address, the body may have another length, and compressed usage could not be read."""
    assert OURS == upstream([(name, b"7")], b"r-1", b"application/json")


def test_the_request_id_is_the_gateways_choice() -> None:
    """Whatever the caller sent, one id goes up."""
    assert OURS == upstream([(b"x-request-id", b"theirs")], b"r-1", b"application/json")


@pytest.mark.parametrize(
    "connection",
    [
        [b"x-hop, keep-alive"],
        [b"Keep-Alive,X-Hop"],
        [b"x-hop", b"close"],
        [b"close", b" x-hop "],
    ],
)
def test_headers_named_in_connection_stay_on_their_hop(connection: list[bytes]) -> None:
    """RFC 9110, 7.6.1; the field may come more than once."""
    given = [(b"x-hop", b"1"), (b"x-end", b"2"), *((b"connection", value) for value in connection)]

    assert [*OURS, (b"x-end", b"2")] == upstream(given, b"r-1", b"application/json")


def test_connection_cannot_take_away_what_the_gateway_says() -> None:
    """A caller who names the content type would make the worker refuse the body."""
    assert OURS == upstream([(b"connection", b"content-type, x-request-id")], b"r-1", b"application/json")


def test_only_known_headers_of_a_backend_pass_down() -> None:
    """A cookie would be the gateway's to the caller's browser, and a backend may be a gateway of the same kind."""
    given = [
        (b"content-type", b"text/event-stream"),
        (b"content-length", b"7"),
        (b"x-request-id", b"theirs"),
        (b"x-warmgate-worker", b"w"),
        (b"x-warmgate-strategy", b"session"),
        (b"x-warmgate-hit-blocks", b"9"),
        (b"x-warmgate-hit-tokens", b"144"),
        (b"x-engine", b"1"),
        (b"set-cookie", b"session=1"),
        (b"clear-site-data", b'"*"'),
        (b"server", b"uvicorn"),
        (b"retry-after", b"3"),
    ]

    assert [(b"content-type", b"text/event-stream"), (b"retry-after", b"3")] == downstream(given)


def test_what_the_bedrock_fallback_says_passes_down() -> None:
    """The fields that it left out, and AWS's own id of the request, which AWS's support asks for."""
    said = [(b"x-amzn-requestid", b"7c0a"), (b"x-warmgate-dropped-params", b"seed,min_p")]

    assert said == downstream(said)


def test_another_body_has_headers_of_its_own() -> None:
    """What described the one that it stands in place of goes, the rest stays."""
    given = [(b"etag", b'"1"'), (b"content-type", b"text/html"), (b"content-md5", b"x"), (b"retry-after", b"9")]

    assert [(b"retry-after", b"9"), (b"content-type", b"application/json")] == of_another_body(
        given, b"application/json"
    )


@pytest.mark.parametrize(
    ("headers", "compressed"),
    [
        ([], False),
        ([(b"content-encoding", b"identity")], False),
        ([(b"content-encoding", b"Identity")], False),
        ([(b"content-encoding", b"gzip")], True),
        ([(b"content-type", b"text/plain"), (b"content-encoding", b"br")], True),
    ],
)
def test_a_compressed_body_is_known_by_its_header(headers: Headers, compressed: bool) -> None:
    """Identity is no compression."""
    assert compressed == is_compressed(headers)


@pytest.mark.parametrize("value", [b"r-1", b"x" * 128, b'!"~{}'])
def test_a_plain_request_id_is_kept(value: bytes) -> None:
    """1 to 128 visible ASCII characters."""
    assert value == request_id_of(fields([(b"accept", b"*/*"), (b"x-request-id", value)]))


@pytest.mark.parametrize("value", [b"", b"a b", b"a\n", b"x" * 129, b"\xc3\xa9", b"a\x00"])
def test_another_request_id_is_ignored(value: bytes) -> None:
    """It could not stand in a header and in a log line."""
    assert request_id_of(fields([(b"x-request-id", value)])) is None


def test_only_the_first_request_id_counts() -> None:
    """A good one behind a bad one is not searched for."""
    assert request_id_of(fields([(b"x-request-id", b""), (b"x-request-id", b"r-2")])) is None
    assert request_id_of(fields([])) is None


def test_the_first_value_of_a_header() -> None:
    """None where the header is missing, empty where it is empty."""
    headers: Headers = [(b"a", b""), (b"b", b"1"), (b"b", b"2")]

    assert b"" == fields(headers).get(b"a")
    assert b"1" == fields(headers).get(b"b")
    assert fields(headers).get(b"c") is None


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
    """Only content-length or a final ``chunked`` ends a body earlier."""
    assert [False, False, False, True, True] == [
        ends_with_connection([(b"Content-Length", b"5")]),
        ends_with_connection([(b"Transfer-Encoding", b"Chunked")]),
        ends_with_connection([(b"transfer-encoding", b"gzip, chunked ")]),
        ends_with_connection([(b"transfer-encoding", b"gzip")]),
        ends_with_connection([(b"content-type", b"text/plain")]),
    ]


def test_chunked_is_the_only_coding_that_is_decoded() -> None:
    """Callers would not learn of others, and a double ``chunked`` is an attempt to hide the end of a body."""
    assert [True, True, False, False, False, False] == [
        is_plainly_framed([(b"content-length", b"5")]),
        is_plainly_framed([(b"Transfer-Encoding", b" Chunked ")]),
        is_plainly_framed([(b"transfer-encoding", b"gzip")]),
        is_plainly_framed([(b"transfer-encoding", b"gzip, chunked")]),
        is_plainly_framed([(b"transfer-encoding", b"chunked"), (b"transfer-encoding", b"chunked")]),
        is_plainly_framed([(b"transfer-encoding", b"")]),
    ]
