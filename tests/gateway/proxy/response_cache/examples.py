"""Caches of answers for tests."""

from gateway.models.response_caching import ResponseCaching
from gateway.proxy.response_cache.answer_store import AnswerStore, KeptAnswer
from gateway.proxy.response_cache.response_cache import ResponseCache
from tests.gateway.examples import Clock

ALWAYS = ResponseCaching(b"settings of tiny", needs_request=False)
ON_REQUEST = ResponseCaching(b"settings of tiny", needs_request=True)
COMPLETE = (
    b'{"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":7,"completion_tokens":2}}'
)
"""A complete answer of a chat."""


def a_response_cache(
    *,
    max_bytes: int = 2**20,
    max_answer_bytes: int = 2**16,
    expire_s: float = 60.0,
    charge_share: float = 0.0,
    clock: Clock | None = None,
) -> ResponseCache:
    store = AnswerStore(max_bytes=max_bytes, max_answer_bytes=max_answer_bytes, expire_s=expire_s)
    return ResponseCache(store, secret=b"s" * 32, charge_share=charge_share, clock=clock or Clock())


def an_answer(body: bytes = COMPLETE, *, kept_at: float = 100.0) -> KeptAnswer:
    return KeptAnswer(body, b"application/json", None, kept_at)
