"""Headers of HTTP/2. The examples are those of RFC 7541, appendix C."""

import pytest

from gateway.picker.http2.hpack import HeaderDecoder, HeaderError, encoded

WEB = (b":authority", b"www.example.com")
FIRST = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), WEB]
SECOND = [*FIRST, (b"cache-control", b"no-cache")]
THIRD = [
    (b":method", b"GET"),
    (b":scheme", b"https"),
    (b":path", b"/index.html"),
    WEB,
    (b"custom-key", b"custom-value"),
]


@pytest.mark.parametrize(
    "blocks",
    [
        [
            "828684410f7777772e6578616d706c652e636f6d",
            "828684be58086e6f2d6361636865",
            "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
        ],
        [
            "828684418cf1e3c2e5f23a6ba0ab90f4ff",
            "828684be5886a8eb10649cbf",
            "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
        ],
    ],
    ids=["plain", "huffman"],
)
def test_later_headers_refer_to_earlier_ones(blocks: list[str]) -> None:
    decoder = HeaderDecoder()

    assert [FIRST, SECOND, THIRD] == [decoder.decode(bytes.fromhex(block)) for block in blocks]


def test_the_table_forgets_the_oldest_headers() -> None:
    """A table of 100 bytes has room for two of these headers, and one of no bytes for none."""
    decoder = HeaderDecoder()
    decoder.decode(bytes.fromhex("3f45" + "400161024141" * 1 + "400162024242" + "400163024343"))
    kept = decoder.decode(bytes.fromhex("bebf"))

    assert [(b"c", b"CC"), (b"b", b"BB")] == kept
    with pytest.raises(HeaderError, match="does not exist"):
        decoder.decode(b"\xc0")
    with pytest.raises(HeaderError, match="does not exist"):
        decoder.decode(b"\x20\xbe")


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("80", "does not exist"),
        ("be", "does not exist"),
        ("7fffffffffffff01", "too large"),
        ("7f", "cut off"),
        ("40", "cut off"),
        ("400a61", "cut off"),
        ("4081ff0162", "padding"),
        ("823fe11f", "changes after"),
        ("3fe21f", "table is too large"),
    ],
)
def test_malformed_headers_are_refused(block: str, problem: str) -> None:
    with pytest.raises(HeaderError, match=problem):
        HeaderDecoder().decode(bytes.fromhex(block))


def test_many_references_to_one_long_header_are_refused() -> None:
    """A few bytes could otherwise become megabytes."""
    decoder = HeaderDecoder()
    decoder.decode(encoded([(b"a", b"x" * 4000)]).replace(b"\x00", b"\x40", 1))

    with pytest.raises(HeaderError, match="too large"):
        decoder.decode(b"\xbe" * 100)


def test_headers_are_encoded_without_a_table() -> None:
    headers = [(b"a", b""), (b"grpc-message", b"x" * 126), (b"b" * 127, b"y" * 254), (b"c", b"z" * 16_000)]

    assert headers == HeaderDecoder().decode(encoded(headers))
