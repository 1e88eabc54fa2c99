"""A Converse answer, as an OpenAI chat completion."""

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.backends.bedrock.json_object import read_object
from gateway.errors import ReplyBroken

_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
}
# No tools are ever sent, so a tool call is as little of an answer as output that Bedrock itself calls malformed.
_UNUSABLE = {"tool_use", "malformed_tool_use", "malformed_model_output"}


def finish_reason(stop_reason: object) -> str:
    """OpenAI's word for Converse's ``stopReason``; a reason not known here counts as an ordinary end.

    Raises:
        ReplyBroken: the model's output is not an answer to what was asked.
    """
    if stop_reason in _UNUSABLE:
        raise ReplyBroken(f"Bedrock's model gave no usable answer ({stop_reason})")
    return _FINISH_REASONS.get(str(stop_reason), "stop")


def usage(tokens: Mapping[str, Any]) -> dict[str, Any]:
    """Converse's ``usage`` as OpenAI counts it: the prompt includes what came from or went into the prompt cache.

    Some models are reported to count the cache inside ``inputTokens`` already, so where a total is given the prompt is
    the total less the output.
    """
    entered, completion = _count(tokens, "inputTokens"), _count(tokens, "outputTokens")
    cached = _count(tokens, "cacheReadInputTokens")
    prompt = _count(tokens, "totalTokens") - completion
    if prompt < entered:
        prompt = entered + cached + _count(tokens, "cacheWriteInputTokens")
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def to_completion(body: bytes, *, completion_id: str, created: int, model: str, reasoning_field: str) -> bytes:
    """The JSON of a chat completion. *created* is in Unix seconds, *model* the name under which the caller asked.

    Raises:
        ReplyBroken: *body* is not an answer. Bedrock says 200 even to an unknown path, with an error for a body.
    """
    try:
        answer = read_object(body)
    except ValueError as error:
        raise ReplyBroken(f"Bedrock answered 200 with a body that is {error}") from error
    try:
        blocks = answer["output"]["message"]["content"]
        texts = [block["text"] for block in blocks if "text" in block]
        thoughts = [block["reasoningContent"] for block in blocks if "reasoningContent" in block]
        reasoning = "".join(thought.get("reasoningText", {}).get("text", "") for thought in thoughts)
        # An answer may hold nothing but reasoning; its content is then empty, never null.
        message = {"role": "assistant", "content": "".join(texts)}
    except (KeyError, TypeError, AttributeError) as error:
        raise ReplyBroken("Bedrock answered 200 without an output") from error
    if reasoning:
        message[reasoning_field] = reasoning
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": finish_reason(answer.get("stopReason")),
    }
    completion: dict[str, Any] = {
        "id": completion_id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [choice],
    }
    if isinstance(answer.get("usage"), dict):
        completion["usage"] = usage(answer["usage"])
    return msgspec.json.encode(completion)


def _count(tokens: Mapping[str, Any], name: str) -> int:
    value = tokens.get(name)
    return value if isinstance(value, int) else 0
