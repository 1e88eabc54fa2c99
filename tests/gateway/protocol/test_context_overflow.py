"""A prompt that is too long, in the words of engines and APIs."""

import pytest

from gateway.protocol.context_overflow import is_overflow, says_overflow

VLLM = (
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8900 in the messages, "
    "100 in the completion). Please reduce the length of the messages or completion."
)
NEWER_VLLM = "The decoder prompt (length 9000) is longer than the maximum model length of 8192."
SGLANG = "The input (9000 tokens) is longer than the model's context length (8192 tokens)."


@pytest.mark.parametrize(
    "message",
    [
        VLLM,
        NEWER_VLLM,
        SGLANG,
        "Input length (9000) exceeds model's maximum context length (8192).",
        "Input Tokens Exceeded: Number of input tokens exceeds maximum length",
        "Too many input tokens. Max input tokens: 8192, request input token count: 9000",
        "Input is too long for requested model.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 199000 + 4096 > 200000",
        "prompt tokens (9000) exceed model maximum (8192)",
        "too many total text bytes: 30000000 > 25000000",
    ],
)
def test_these_say_that_a_prompt_is_too_long(message: str) -> None:
    """These are texts of vLLM, SGLang, Bedrock's models, Anthropic and OpenAI."""
    assert is_overflow(message)
    assert says_overflow(400, message.encode())


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5",
        "max_tokens=100000 cannot be greater than max_model_len=16384. Please request fewer output tokens.",
        "Too many tokens, please wait before trying again.",
        "temperature: 2 is greater than the maximum of 1",
        "the maximum number of stop sequences is 4",
    ],
)
def test_these_do_not(message: str) -> None:
    """Other limits are for others to mend."""
    assert not is_overflow(message)


@pytest.mark.parametrize(("status", "says"), [(400, True), (422, True), (413, True), (429, False), (200, False)])
def test_only_a_refusal_says_so(status: int, says: bool) -> None:
    """An answer may quote such words, and a throttled request may be sent again."""
    assert says == says_overflow(status, VLLM.encode())


def test_a_body_that_is_too_large_is_an_overflow() -> None:
    """The status is enough."""
    assert says_overflow(413, b"")
