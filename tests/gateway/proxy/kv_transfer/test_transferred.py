"""The prefill worker's count of cached tokens in the place of the decode worker's."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocol.usage import Usage
from gateway.proxy.kv_transfer.transferred import TransferredObserver, replace_cached_tokens, with_cached_tokens

CHUNK = (
    b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,'
    b'"prompt_tokens_details":{"cached_tokens":8}}}\n\n'
)
HELLO = b'data: {"choices":[{"delta":{"content":"say \\"cached_tokens\\": 5"}}]}\n\n'
DONE = b"data: [DONE]\n\n"


def an_observer(cached_tokens: int | None, *, strip_usage: bool = False) -> TransferredObserver:
    return TransferredObserver(lambda: cached_tokens, strip_usage=strip_usage, max_held=1000)


@pytest.mark.parametrize("spelling", [b'{"cached_tokens":8}', b'{"cached_tokens" : 8}', b'{"cached_tokens":\n 12345}'])
def test_the_count_is_replaced(spelling: bytes) -> None:
    assert {"cached_tokens": 3} == json.loads(replace_cached_tokens(spelling, 3))


@given(st.text())
def test_texts_that_look_the_same_stay(text: str) -> None:
    body = json.dumps({"content": f'"cached_tokens": 7 {text} "cached_tokens":7'}).encode()

    assert body == replace_cached_tokens(body, 3)


def test_without_a_count_the_data_stays() -> None:
    assert b'{"cached_tokens":8}' == replace_cached_tokens(b'{"cached_tokens":8}', None)
    assert b'{"prompt_tokens_details":null}' == replace_cached_tokens(b'{"prompt_tokens_details":null}', 3)


def test_a_stream_has_the_count_in_bytes_and_in_usage() -> None:
    """The network may cut it anywhere."""
    for size in range(1, len(HELLO + CHUNK + DONE) + 1):
        observer, stream = an_observer(3), HELLO + CHUNK + DONE
        passed = (
            b"".join(observer.feed(stream[at : at + size]) for at in range(0, len(stream), size)) + observer.finish()
        )

        assert HELLO + CHUNK.replace(b":8}", b":3}") + DONE == passed
        assert (Usage(9, 2, 3), True) == (observer.usage, observer.done)


def test_the_last_event_without_a_blank_line_is_corrected_too() -> None:
    observer = an_observer(3)
    observer.feed(CHUNK.rstrip())

    assert CHUNK.rstrip().replace(b":8}", b":3}") == observer.finish()


def test_a_stream_may_keep_its_usage_to_itself() -> None:
    observer = an_observer(3, strip_usage=True)

    assert HELLO + DONE == observer.feed(HELLO + CHUNK + DONE)
    assert Usage(9, 2, 3) == observer.usage


def test_an_unknown_count_changes_nothing() -> None:
    observer = an_observer(None)

    assert CHUNK == observer.feed(CHUNK)
    assert Usage(9, 2, 8) == observer.usage


@pytest.mark.parametrize(
    ("usage", "cached_tokens", "expected"),
    [
        (None, 3, None),
        (Usage(9, 2, 8), None, Usage(9, 2, 8)),
        (Usage(9, 2, None), 3, Usage(9, 2, None)),  # an engine that reports no count gets none
        (Usage(9, 2, 8), 3, Usage(9, 2, 3)),
        (Usage(9, 2, 8), 30, Usage(9, 2, 9)),  # there are no more than the prompt has
    ],
)
def test_usage_is_that_of_both(usage: Usage | None, cached_tokens: int | None, expected: Usage | None) -> None:
    assert expected == with_cached_tokens(usage, cached_tokens)
