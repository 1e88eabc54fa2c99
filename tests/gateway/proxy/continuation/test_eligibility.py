import json
from typing import Any

import msgspec
import pytest

from gateway.proxy.continuation.eligibility import Fields, is_exact_by_tokens, is_possible_by_text

TOOLS = [{"type": "function", "function": {"name": "f"}}]
IMAGE = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]}]


def fields_of(**fields: Any) -> Fields:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "a"}], "stream": True, **fields}
    return msgspec.json.decode(json.dumps(body), type=dict[str, msgspec.Raw])


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 0.7, "seed": 1, "top_p": 0.9, "top_k": 5, "logit_bias": {"5": 1}, "repetition_penalty": 1.1},
        {"stop": None, "stop_token_ids": [5]},
        {"stop": [], "presence_penalty": 0, "frequency_penalty": 0.0, "logprobs": False, "n": 1, "best_of": 1},
        {"tools": TOOLS, "tool_choice": "none"},
        {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True},
        {"response_format": {"type": "text"}, "modalities": ["text"], "audio": None},
        {"response_format": None, "modalities": None},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}, {"role": "assistant"}]},
        {"messages": [{"role": "user", "content": None, "tool_calls": []}]},
        {"max_completion_tokens": 5, "metadata": {"a": "b"}, "chat_template_kwargs": {"enable_thinking": False}},
        {"something_new": None, "another": False, "third": {}},
    ],
)
def test_exact_fields(fields: dict[str, Any]) -> None:
    """Fields that are passed on, that made the prompt, or that have no effect."""
    assert is_exact_by_tokens(fields_of(**fields))
    assert is_possible_by_text(fields_of(**fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"stop": ["#"]},
        {"stop": "#"},
        {"presence_penalty": 0.1},
        {"frequency_penalty": -1},
        {"bad_words": ["a"]},
        {"thinking_token_budget": 5},
        {"vllm_xargs": {"a": 1}},
        {"repetition_detection": {"a": 1}},
        {"messages": IMAGE},
        {"messages": [{"role": "user", "content": [{"text": "a"}]}]},
        {"messages": [{"role": "user", "content": 5}]},
        {"messages": 5},
        {"something_new": 1},
    ],
)
def test_fields_for_text_only(fields: dict[str, Any]) -> None:
    """Fields about the output alone, content without ids, and unknown fields."""
    assert not is_exact_by_tokens(fields_of(**fields))
    assert is_possible_by_text(fields_of(**fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2},
        {"best_of": 2},
        {"use_beam_search": True},
        {"logprobs": True},
        {"logprobs": 0},
        {"top_logprobs": 2},
        {"prompt_logprobs": 1},
        {"tools": TOOLS},
        {"tools": TOOLS, "tool_choice": "auto"},
        {"functions": [{"name": "f"}]},
        {"response_format": {"type": "json_object"}},
        {"response_format": 5},
        {"structured_outputs": {"regex": "a"}},
        {"guided_json": {}, "regex": "a"},
        {"modalities": ["text", "audio"], "audio": {"voice": "x"}},
        {"echo": True},
        {"suffix": "a"},
        {"kv_transfer_params": {"a": 1}},
    ],
)
def test_fields_that_prevent_a_continuation(fields: dict[str, Any]) -> None:
    """Another shape of answer, a call, an unfinished grammar."""
    assert not is_exact_by_tokens(fields_of(**fields))
    assert not is_possible_by_text(fields_of(**fields))


def test_a_number_too_large_for_a_float_has_an_effect() -> None:
    """Its field is not known to be neutral."""
    fields = msgspec.json.decode(b'{"model":"tiny","something_new":1e999}', type=dict[str, msgspec.Raw])

    assert not is_exact_by_tokens(fields)
