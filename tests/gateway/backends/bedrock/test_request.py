from typing import Any

import msgspec
import pytest

from gateway.backends.bedrock.request import ConverseRequest, to_converse
from gateway.errors import InvalidField, MalformedBody
from tests.fakes.bedrock import body_faults

HELLO = [{"role": "user", "content": "hello"}]


def converse(fields: dict[str, Any], *, max_tokens_limit: int | None = None) -> ConverseRequest:
    """The request for a chat body with *fields*, found valid by AWS's own service model."""
    body = msgspec.json.encode({"model": "tiny", "messages": HELLO, **fields})
    request = to_converse(body, default_max_tokens=4096, max_tokens_limit=max_tokens_limit)
    assert [] == body_faults("qwen.qwen3-32b-v1:0", request.payload)
    return request


def turns(*messages: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """The turns of Converse as role and texts."""
    payload = converse({"messages": list(messages)}).payload
    return [(turn["role"], [block["text"] for block in turn["content"]]) for turn in payload["messages"]]


def test_a_chat_is_a_converse_request() -> None:
    """System texts at the head, the turns, the token limit and the sampling each have their place."""
    request = converse(
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "developer", "content": [{"type": "text", "text": "In English."}]},
                {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
                {"role": "assistant", "content": "three"},
                {"role": "user", "content": "four"},
            ],
            "max_tokens": 100,
            "temperature": 0.5,
            "top_p": 0.9,
            "stop": ["END", ""],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    )

    assert {
        "system": [{"text": "Be brief."}, {"text": "In English."}],
        "messages": [
            {"role": "user", "content": [{"text": "one"}, {"text": "two"}]},
            {"role": "assistant", "content": [{"text": "three"}]},
            {"role": "user", "content": [{"text": "four"}]},
        ],
        "inferenceConfig": {"maxTokens": 100, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"]},
    } == request.payload
    assert () == request.dropped
    assert request.wants_usage


def test_consecutive_turns_of_one_role_are_merged() -> None:
    """Most models want the roles to alternate."""
    assert [("user", ["a", "b"]), ("assistant", ["c", "d"]), ("user", ["e"])] == turns(
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "c"},
        {"role": "assistant", "content": "d"},
        {"role": "user", "content": "e"},
    )


def test_a_late_system_message_becomes_user_text_in_place() -> None:
    """Moved to the head it would mean something else."""
    assert [("user", ["a"]), ("assistant", ["b"]), ("user", ["rule", "c"])] == turns(
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "system", "content": "rule"},
        {"role": "user", "content": "c"},
    )


def test_a_conversation_that_the_assistant_opens_gets_a_user_turn() -> None:
    """Some models want a user's turn first."""
    assert [("user", ["."]), ("assistant", ["Hi!"]), ("user", ["a"])] == turns(
        {"role": "assistant", "content": "Hi!"}, {"role": "user", "content": "a"}
    )


def test_a_system_message_alone_gets_a_user_turn() -> None:
    """Converse wants at least one message."""
    assert [("user", ["."])] == turns({"role": "system", "content": "Say hello."})


def test_blank_text_is_left_out() -> None:
    """Bedrock refuses blank text: a blank user turn keeps its place, a blank assistant turn is nothing."""
    assert [("user", [".", "a"])] == turns(
        {"role": "system", "content": " "},
        {"role": "user", "content": "\n "},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": None},
        {"role": "user", "content": [{"type": "text", "text": " "}, {"type": "text", "text": "a"}]},
        {"role": "assistant", "content": " "},
    )


def test_a_refusal_is_text_of_the_assistant() -> None:
    """Both forms in which OpenAI's history holds a refusal are kept."""
    assert [("user", ["a"]), ("assistant", ["No.", "Never."]), ("user", ["b"])] == turns(
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": None, "refusal": "No."},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "Never."}]},
        {"role": "user", "content": "b"},
    )


@pytest.mark.parametrize(
    ("fields", "limit", "max_tokens"),
    [
        ({}, None, 4096),
        ({"max_tokens": None}, None, 4096),
        ({"max_tokens": 7}, None, 7),
        ({"max_completion_tokens": 9, "max_tokens": 7}, None, 9),
        ({"max_tokens": 100_000}, 8192, 8192),
        ({}, 2048, 2048),
    ],
)
def test_max_tokens_is_always_sent(fields: dict[str, Any], limit: int | None, max_tokens: int) -> None:
    """Unset it would reserve the model's maximum against the account's quota; above the model's cap it is cut."""
    payload = converse(fields, max_tokens_limit=limit).payload

    assert {"maxTokens": max_tokens} == payload["inferenceConfig"]


@pytest.mark.parametrize(("temperature", "sent"), [(0, 0), (0.3, 0.3), (1, 1), (1.7, 1.0), (2, 1.0)])
def test_temperature_is_clamped_to_one(temperature: float, sent: float) -> None:
    """OpenAI's range ends at 2, Converse's at 1."""
    assert sent == converse({"temperature": temperature}).payload["inferenceConfig"]["temperature"]


@pytest.mark.parametrize(("stop", "sent"), [("END", ["END"]), (["a", "b"], ["a", "b"]), ("", None), ([""], None)])
def test_stop_is_a_list_without_empty_strings(stop: object, sent: list[str] | None) -> None:
    """A single string is a list of one; what is empty goes."""
    assert sent == converse({"stop": stop}).payload["inferenceConfig"].get("stopSequences")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tools", [{"type": "function", "function": {"name": "f"}}]),
        ("tool_choice", "required"),
        ("functions", [{"name": "f"}]),
        ("response_format", {"type": "json_schema", "json_schema": {}}),
        ("response_format", {"type": "json_object"}),
        ("modalities", ["text", "audio"]),
        ("audio", {"voice": "alloy"}),
        ("web_search_options", {}),
        ("n", 2),
        ("logprobs", True),
        ("top_logprobs", 5),
        ("logit_bias", {"50256": -100}),
        ("prompt_logprobs", 0),
        ("structured_outputs", {"regex": "a+"}),
        ("guided_json", {}),
        ("guided_choice", ["a", "b"]),
        ("continue_final_message", True),
        ("return_token_ids", True),
    ],
)
def test_what_would_be_silently_wrong_is_refused(field: str, value: object) -> None:
    """A field without an equal in Converse, whose absence would change what the answer is, is refused by name."""
    with pytest.raises(InvalidField, match=f"'{field}' cannot be served by the Bedrock fallback") as caught:
        converse({field: value})

    assert field == caught.value.param


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [], "tool_choice": "none"},
        {"tools": None, "tool_choice": "auto"},
        {"response_format": {"type": "text"}},
        {"modalities": ["text"]},
        {"n": 1, "logprobs": False, "top_logprobs": 0, "logit_bias": {}},
    ],
)
def test_neutral_values_are_no_hindrance(fields: dict[str, Any]) -> None:
    """Asking for nothing special is not refused, and nothing is listed as dropped."""
    assert () == converse(fields).dropped


def test_soft_fields_are_dropped_and_listed() -> None:
    """What changes the answer only a little is left out, and the caller can be told."""
    request = converse(
        {
            "seed": 1,
            "frequency_penalty": 0.1,
            "min_p": 0.05,
            "user": "u",
            "metadata": {"k": "v"},
            "store": None,
            "messages": [
                {"role": "user", "content": "a", "name": "ann"},
                {"role": "assistant", "content": "b", "reasoning_content": "hm", "tool_calls": []},
                {"role": "user", "content": "c"},
            ],
        }
    )

    assert (
        "frequency_penalty",
        "messages.name",
        "messages.reasoning_content",
        "metadata",
        "min_p",
        "seed",
        "user",
    ) == request.dropped


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "tool", "tool_call_id": "c", "content": "4"}, "messages[1].role"),
        ({"role": "function", "name": "f", "content": "4"}, "messages[1].role"),
        ({"role": "narrator", "content": "x"}, "messages[1].role"),
        ({"content": "x"}, "messages[1].role"),
        ({"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}, "messages[1].tool_calls"),
        ({"role": "assistant", "content": None, "audio": {"id": "a"}}, "messages[1].audio"),
        ({"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image_url"}]}, "messages[1].content[1]"),
        ({"role": "user", "content": [{"type": "input_audio"}]}, "messages[1].content[0]"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[1].content[0]"),
        ({"role": "user", "content": [7]}, "messages[1].content[0]"),
        ({"role": "user", "content": 7}, "messages[1].content"),
        ({"role": "user"}, "messages[1].content"),
        ("hello", "messages[1]"),
    ],
)
def test_a_message_that_is_not_text_is_refused_with_its_place(message: object, param: str) -> None:
    """Tool history, images, audio and malformed messages are named by their path."""
    with pytest.raises(InvalidField) as caught:
        converse({"messages": [*HELLO, message, *HELLO]})

    assert param == caught.value.param


def test_a_conversation_that_ends_with_the_assistant_is_refused() -> None:
    """Most models would begin afresh instead of going on."""
    with pytest.raises(InvalidField, match="end with the assistant"):
        converse({"messages": [*HELLO, {"role": "assistant", "content": "Once upon"}]})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("messages", []),
        ("messages", None),
        ("messages", "hello"),
        ("max_tokens", 0),
        ("max_tokens", "10"),
        ("max_completion_tokens", True),
        ("temperature", "hot"),
        ("temperature", -0.1),
        ("top_p", 1.1),
        ("stop", 7),
        ("stop", ["a", 7]),
    ],
)
def test_a_bad_value_is_refused_with_its_field(field: str, value: object) -> None:
    """No bad value is passed on for Bedrock to find."""
    with pytest.raises(InvalidField) as caught:
        converse({field: value})

    assert field == caught.value.param


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b'{"messages":[{"role":"user","content":"\xff"}]}'])
def test_a_body_that_is_no_object_is_malformed(body: bytes) -> None:
    """Not JSON, not UTF-8 or not an object."""
    with pytest.raises(MalformedBody):
        to_converse(body, default_max_tokens=1)
