from typing import Any

import msgspec
import pytest
from openai.types.chat import ChatCompletion

from gateway.backends.bedrock.answer import finish_reason, to_completion, usage
from gateway.errors import ReplyBroken


def completion(answer: object) -> Any:
    body = msgspec.json.encode(answer)
    text = to_completion(
        body, completion_id="chatcmpl-1", created=1700000000, model="tiny", reasoning_field="reasoning_content"
    )
    ChatCompletion.model_validate_json(text, strict=True)
    return msgspec.json.decode(text)


def answer(*blocks: dict[str, Any], **more: object) -> dict[str, Any]:
    return {"output": {"message": {"role": "assistant", "content": list(blocks)}}, "stopReason": "end_turn", **more}


def test_an_answer_is_a_chat_completion() -> None:
    """Text, finish reason and usage come out in OpenAI's shape, under the caller's name for the model."""
    tokens = {"inputTokens": 11, "outputTokens": 5, "totalTokens": 16, "serverToolUsage": {}}

    assert {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "tiny",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello"},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 11,
            "completion_tokens": 5,
            "total_tokens": 16,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    } == completion(answer({"text": "Hello"}, usage=tokens, metrics={"latencyMs": 1}))


def test_every_text_block_counts() -> None:
    """The text is not looked for in the first block only: an empty one, reasoning and unknown ones may stand before."""
    reasoning = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}

    message = completion(answer({"text": ""}, reasoning, {"citationsContent": {}}, {"text": "a"}, {"text": "b"}))[
        "choices"
    ][0]["message"]

    assert {"role": "assistant", "content": "ab", "reasoning_content": "hm"} == message


def test_an_answer_of_nothing_but_reasoning_has_empty_content() -> None:
    """Content is then a string, never null; redacted reasoning has no text."""
    blocks = (
        {"reasoningContent": {"redactedContent": "eA=="}},
        {"reasoningContent": {"reasoningText": {"text": "hm"}}},
    )

    message = completion(answer(*blocks))["choices"][0]["message"]

    assert {"role": "assistant", "content": "", "reasoning_content": "hm"} == message


def test_without_usage_there_is_none() -> None:
    """No count is made up."""
    assert "usage" not in completion(answer({"text": "x"}))


@pytest.mark.parametrize(
    "body",
    [
        {"Output": {"__type": "com.amazon.coral.service#UnknownOperationException"}, "Version": "1.0"},
        {"output": {}},
        {"output": {"message": {"content": None}}},
        {"output": {"message": {"content": [7]}}},
        {"output": None},
        [],
        None,
    ],
)
def test_a_200_without_an_output_is_broken(body: object) -> None:
    """Bedrock says 200 to a path it does not know; that is not an empty answer."""
    with pytest.raises(ReplyBroken, match=r"without an output|not a JSON object"):
        completion(body)


def test_a_200_that_is_not_json_is_broken() -> None:
    """A page of something in between is not an answer."""
    with pytest.raises(ReplyBroken, match="not valid JSON"):
        to_completion(b"<html>", completion_id="c", created=0, model="m", reasoning_field="reasoning")


@pytest.mark.parametrize(
    ("stop_reason", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("guardrail_intervened", "content_filter"),
        ("content_filtered", "content_filter"),
        ("never_heard_of", "stop"),
        (None, "stop"),
    ],
)
def test_a_stop_reason_is_a_finish_reason(stop_reason: object, expected: str) -> None:
    """Each stop reason has one finish reason; an unknown one is an ordinary end."""
    assert expected == finish_reason(stop_reason)


@pytest.mark.parametrize("stop_reason", ["malformed_model_output", "malformed_tool_use", "tool_use"])
def test_an_unusable_answer_is_broken(stop_reason: str) -> None:
    """Garbage, or a call of a tool that was never offered, is not handed on as a finished answer."""
    with pytest.raises(ReplyBroken, match=stop_reason):
        finish_reason(stop_reason)


@pytest.mark.parametrize(
    ("tokens", "prompt", "completion_tokens", "cached"),
    [
        ({"inputTokens": 2, "cacheWriteInputTokens": 1322, "outputTokens": 5, "totalTokens": 1329}, 1324, 5, 0),
        ({"inputTokens": 2, "cacheReadInputTokens": 1322, "outputTokens": 5}, 1324, 5, 1322),
        # the cache counted inside inputTokens already
        ({"inputTokens": 1324, "cacheReadInputTokens": 1322, "outputTokens": 5, "totalTokens": 1329}, 1324, 5, 1322),
        ({"inputTokens": 10, "outputTokens": 5, "totalTokens": 3}, 10, 5, 0),
        ({}, 0, 0, 0),
    ],
)
def test_the_prompt_includes_the_cache(
    tokens: dict[str, int], prompt: int, completion_tokens: int, cached: int
) -> None:
    """A consistent total decides, else the parts are added up."""
    counted = usage(tokens)

    assert (prompt, completion_tokens, prompt + completion_tokens) == (
        counted["prompt_tokens"],
        counted["completion_tokens"],
        counted["total_tokens"],
    )
    assert {"cached_tokens": cached} == counted["prompt_tokens_details"]
