from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.server.message_ends import MessageEnds, past_empty_lines

HEAD = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
CHUNKS = (
    b'3;q="1"\r\na\r\n\r\n0A\r\n0\r\n\r\n0\r\n\r\n\r\n' + b"0" * 100 + b"1\r\n\n\r\n00;last\r\nx: y\r\n0: z\r\n\r\n"
)


@pytest.mark.parametrize(("data", "at", "place"), [(b"\r\n\n\rGET", 0, 4), (b"GET", 0, 0), (b"x\r\n", 1, 3)])
def test_line_ends_before_a_request_are_passed(data: bytes, at: int, place: int) -> None:
    """All of them; where nothing else comes, the place is the end."""
    assert place == past_empty_lines(data, at)


def ended(data: bytes, cuts: set[int], *, length: int = 0, is_chunked: bool = False, is_head: bool = False) -> int:
    """Return how many bytes of *data*, cut at *cuts*, belong to the message; no cut is at its end."""
    ends = MessageEnds()
    ends.expect_body(length, is_chunked=is_chunked)
    places = sorted({0, len(data), *cuts})
    for begin, end in pairwise(places):
        piece = b"####" + data[begin:end]
        place = ends.head_in(piece, 4) if is_head else ends.body_in(piece, 4)
        if place < len(piece):
            return begin + place - 4
    return len(data)


@given(st.sets(st.integers(1, len(HEAD) + 3).filter(lambda cut: cut != len(HEAD))))
def test_a_head_ends_with_its_empty_line(cuts: set[int]) -> None:
    """Wherever it is cut, and whatever comes behind it."""
    assert len(HEAD) == ended(HEAD + b"\r\n\r\n", cuts, is_head=True)


def test_a_head_may_follow_another() -> None:
    ends = MessageEnds()

    places = [ends.head_in(HEAD[:-1], 0), ends.head_in(b"\n\n\r\n", 0), ends.head_in(b"\n\r\n", 0)]

    assert [len(HEAD) - 1, 1, 3] == places


@given(st.sets(st.integers(1, 19).filter(lambda cut: cut != 15)))
def test_a_body_with_a_length_ends_with_it(cuts: set[int]) -> None:
    """Its content does not matter."""
    assert 15 == ended(HEAD[:20], cuts, length=15)


@settings(max_examples=100)
@given(st.sets(st.integers(1, len(CHUNKS) + 10).filter(lambda cut: cut != len(CHUNKS))))
def test_a_chunked_body_ends_behind_its_trailers(cuts: set[int]) -> None:
    """Not where its chunks hold what reads like an end; sizes may have zeros before them, and extensions behind."""
    assert len(CHUNKS) == ended(CHUNKS + b"0\r\n\r\n" + HEAD, cuts, is_chunked=True)


@pytest.mark.parametrize("body", [b"\r\n", b"x\r\n", b"-1\r\n", b"0x\r\nabc", b"1\r\nabc\r\n"])
def test_what_is_no_chunked_body_is_for_the_parser_to_refuse(body: bytes) -> None:
    """Here nothing is raised."""
    assert 0 < ended(body, set(), is_chunked=True) <= len(body)


def test_small_chunks_are_read_like_all_others() -> None:
    """Chunks of 1 to 17 bytes, with sizes in upper or lower case, may contain bytes that look like their end."""
    small = [b"%x\r\n%b\r\n" % (n, (b"\r\n0\r\n\r\n" * 3)[:n]) for n in range(1, 18)]
    small += [b"0%X;x=y\r\n%b\r\n" % (n, b"0" * n) for n in range(1, 18)]
    body = b"".join(small) * 2 + b"0\r\n\r\n"

    assert len(body) == ended(body + HEAD, set(), is_chunked=True)
    assert all(len(body) == ended(body + HEAD, {cut}, is_chunked=True) for cut in range(1, len(body)))


def test_of_a_line_that_does_not_end_little_is_kept() -> None:
    """An extension and a trailer may be as long as the caller likes, so that they are refused elsewhere."""
    ends = MessageEnds()
    ends.expect_body(0, is_chunked=True)

    for piece in (b"1;" + b"a" * 10_000, b"a" * 10_000):
        ends.body_in(piece, 0)
        assert len(ends._line) <= 64
    assert 6 == ends.body_in(b"\r\nx\r\n0", 0)
    for piece in (b"\r\nx:" + b"a" * 10_000, b"a" * 10_000):
        ends.body_in(piece, 0)
        assert len(ends._line) <= 64
    assert 4 == ends.body_in(b"\r\n\r\nG", 0)
