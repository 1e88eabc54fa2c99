"""Bounds on kept answers, and which answers are complete."""

import pytest

from gateway.proxy.response_cache.answer_store import ENTRY_BYTES, AnswerStore, is_complete
from tests.gateway.proxy.response_cache.examples import COMPLETE, an_answer

CHAT = "/v1/chat/completions"


def a_store(max_bytes: int = 10_000, max_answer_bytes: int = 1000, expire_s: float = 60.0) -> AnswerStore:
    return AnswerStore(max_bytes=max_bytes, max_answer_bytes=max_answer_bytes, expire_s=expire_s)


def test_an_answer_is_found_until_it_expires() -> None:
    """After that, it is removed."""
    store = a_store()
    answer = an_answer(kept_at=100.0)
    store.keep(b"k", answer)

    assert answer is store.find(b"k", 159.9)
    assert store.find(b"other", 100.0) is None
    assert store.find(b"k", 160.0) is None
    assert (0, 0) == (len(store), store.size_bytes)


def test_the_bytes_are_bounded() -> None:
    """The answer that was not used for the longest time makes room."""
    size = ENTRY_BYTES + 100 + len(b"application/json")
    store = a_store(max_bytes=3 * size)
    for key in (b"a", b"b", b"c"):
        store.keep(key, an_answer(b"x" * 100))
    store.find(b"a", 100.0)
    store.keep(b"d", an_answer(b"x" * 100))

    assert [True, False, True, True] == [store.find(key, 100.0) is not None for key in (b"a", b"b", b"c", b"d")]
    assert (3 * size, 1) == (store.size_bytes, store.evicted)


def test_a_newer_answer_replaces_the_kept_one() -> None:
    """Its bytes are counted once."""
    store = a_store()
    store.keep(b"a", an_answer(b"x" * 500))
    newer = an_answer(b"y" * 10)
    store.keep(b"a", newer)

    assert newer is store.find(b"a", 100.0)
    assert newer.size_bytes == store.size_bytes


def test_an_answer_that_is_too_large_is_not_kept() -> None:
    """An older answer for the same key is removed, because it was replaced."""
    store = a_store()
    store.keep(b"a", an_answer(b"x"))
    store.keep(b"a", an_answer(b"x" * 1001))

    assert (0, 0, 0) == (len(store), store.size_bytes, store.evicted)


def test_recordings_are_bounded() -> None:
    """Each by the size of an answer, and all together by a quarter of the cache."""
    store = a_store(max_bytes=4000, max_answer_bytes=600)

    assert store.may_record(0, 600)
    assert not store.may_record(600, 1)
    assert store.may_record(0, 400)
    assert not store.may_record(0, 1)
    store.recorded(600)
    assert store.may_record(0, 1)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (COMPLETE, True),
        (b'data: {"choices":[{"finish_reason":null}]}\n\ndata: {"choices":[{"finish_reason": "stop"}]}\n\n', True),
        (b'{"choices":[{"finish_reason":"length"}]}', False),
        (b'{"choices":[{"finish_reason":"stop"},{"finish_reason":"length"}]}', False),
        (b'{"choices":[{"finish_reason":"tool_calls"}]}', False),
        (b'{"choices":[{"finish_reason":"content_filter"}]}', False),
        (b'{"choices":[{"message":{"content":"\\"finish_reason\\":\\"stop\\""},"finish_reason":null}]}', False),
        (b'{"choices":[{"message":{"content":"\\"finish_reason\\":\\"length\\""},"finish_reason":"stop"}]}', True),
        (b'{"error":{"message":"no"}}', False),
        (b"{}", False),
    ],
)
def test_only_a_stop_is_complete(body: bytes, expected: bool) -> None:
    """Cut answers, calls of tools and errors are not, and texts that quote a field do not count."""
    assert expected is is_complete(CHAT, body)


def test_computed_answers_are_complete_unless_they_are_errors() -> None:
    """Embeddings and scores have no reason to finish."""
    assert is_complete("/v1/embeddings", b'{"data":[]}')
    assert not is_complete("/v1/embeddings", b'{"error":{"message":"no"}}')
    assert not is_complete("/v1/rerank", b'{ "object": "error", "message": "no"}')
