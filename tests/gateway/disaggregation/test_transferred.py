"""The prefill worker's count of cached tokens in the place of the decode worker's."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.disaggregation.transferred import TransferredTail, told, usage_told
from gateway.usage import Usage

CHUNK = (
    b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,'
    b'"prompt_tokens_details":{"cached_tokens":8}}}\n\n'
)
HELLO = b'data: {"choices":[{"delta":{"content":"say \\"cached_tokens\\": 5"}}]}\n\n'
DONE = b"data: [DONE]\n\n"


def a_tail(cached_tokens: int | None, *, strip_usage: bool = False) -> TransferredTail:
    return TransferredTail(lambda: cached_tokens, strip_usage=strip_usage, max_held=1000)


@pytest.mark.parametrize("spelling", [b'{"cached_tokens":8}', b'{"cached_tokens" : 8}', b'{"cached_tokens":\n 12345}'])
def test_a_number_is_put_in_the_place_of_another(spelling: bytes) -> None:
    assert {"cached_tokens": 3} == json.loads(told(spelling, 3))


@given(st.text())
def test_texts_that_look_the_same_stay(text: str) -> None:
    body = json.dumps({"content": f'"cached_tokens": 7 {text} "cached_tokens":7'}).encode()

    assert body == told(body, 3)


def test_what_nobody_knows_stays() -> None:
    assert b'{"cached_tokens":8}' == told(b'{"cached_tokens":8}', None)
    assert b'{"prompt_tokens_details":null}' == told(b'{"prompt_tokens_details":null}', 3)


def test_a_stream_tells_the_other_number_in_bytes_and_in_usage() -> None:
    """However the network cuts it."""
    for size in range(1, len(HELLO + CHUNK + DONE) + 1):
        tail, stream = a_tail(3), HELLO + CHUNK + DONE
        passed = b"".join(tail.feed(stream[at : at + size]) for at in range(0, len(stream), size)) + tail.finish()

        assert HELLO + CHUNK.replace(b":8}", b":3}") + DONE == passed
        assert (Usage(9, 2, 3), True) == (tail.usage, tail.done)


def test_an_event_that_no_blank_line_ends_is_told_too() -> None:
    tail = a_tail(3)
    tail.feed(CHUNK.rstrip())

    assert CHUNK.rstrip().replace(b":8}", b":3}") == tail.finish()


def test_a_stream_may_keep_its_usage_to_itself() -> None:
    tail = a_tail(3, strip_usage=True)

    assert HELLO + DONE == tail.feed(HELLO + CHUNK + DONE)
    assert Usage(9, 2, 3) == tail.usage


def test_what_is_not_known_yet_stays_as_it_is() -> None:
    tail = a_tail(None)

    assert CHUNK == tail.feed(CHUNK)
    assert Usage(9, 2, 8) == tail.usage


@pytest.mark.parametrize(
    ("usage", "cached_tokens", "expected"),
    [
        (None, 3, None),
        (Usage(9, 2, 8), None, Usage(9, 2, 8)),
        (Usage(9, 2, None), 3, Usage(9, 2, None)),  # an engine that tells none does not tell, whoever computed
        (Usage(9, 2, 8), 3, Usage(9, 2, 3)),
        (Usage(9, 2, 8), 30, Usage(9, 2, 9)),  # there are no more than the prompt has
    ],
)
def test_usage_is_that_of_both(usage: Usage | None, cached_tokens: int | None, expected: Usage | None) -> None:
    assert expected == usage_told(usage, cached_tokens)
