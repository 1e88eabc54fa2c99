"""The body of the Responses API as a chat; the expected messages are those that vLLM 0.32 makes of the same body."""

import json
from typing import Any

import pytest

from gateway.models.tokenizing.asked import AskedChat
from gateway.models.tokenizing.exactness import Unknowable
from gateway.models.tokenizing.responses_body import asked_of_responses

CALL = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c1", "id": "fc_1", "status": "completed"}
CALLED = {"id": "c1", "function": {"name": "f", "arguments": "{}"}, "type": "function"}
USER = {"role": "user", "content": "hi"}


def asked(**fields: Any) -> AskedChat:
    return asked_of_responses(json.dumps({"model": "m", "input": "hi", **fields}).encode())


def message(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "content": content, "id": "msg_1", "status": "completed"}


def reasoning(text: str) -> dict[str, Any]:
    return {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}


def test_a_text_is_what_the_user_says() -> None:
    """After the instructions."""
    assert AskedChat(messages=[USER]) == asked()
    assert [{"role": "system", "content": "Be brief."}, USER] == asked(instructions="Be brief.").messages


def test_messages_of_others_than_the_assistant_stay_as_they_are() -> None:
    """Role and content, the rest is the server's."""
    content = [{"type": "input_text", "text": "hi"}]

    assert [{"role": "developer", "content": content}] == asked(
        input=[{"type": "message", "role": "developer", "content": content, "id": "msg_1"}]
    ).messages


def test_what_the_assistant_did_at_one_time_is_one_message() -> None:
    """Reasoning, text and calls; a second text begins another."""
    items = [USER, reasoning("Is it?"), message("Yes."), CALL, CALL, message("Done.")]

    messages = asked(input=items).messages

    assert [
        USER,
        {"role": "assistant", "reasoning": "Is it?", "content": "Yes.", "tool_calls": [CALLED, CALLED]},
        {"role": "assistant", "content": "Done."},
    ] == messages
    assert ["name", "arguments"] == list(messages[1]["tool_calls"][0]["function"])


def test_a_call_can_come_first() -> None:
    """Its output is a message of the tool."""
    output = {"type": "function_call_output", "call_id": "c1", "output": "42"}

    assert [
        USER,
        {"role": "assistant", "tool_calls": [CALLED]},
        {"role": "tool", "content": "42", "tool_call_id": "c1"},
    ] == asked(input=[USER, CALL, output]).messages


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (reasoning("Is it?"), "Is it?"),
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "It is."}]}, "It is."),
        ({"type": "reasoning", "summary": []}, ""),
    ],
)
def test_reasoning_is_its_first_text(item: dict[str, Any], text: str) -> None:
    """Without one, the first text of its summary counts."""
    assert [USER, {"role": "assistant", "reasoning": text}] == asked(input=[USER, item]).messages


def test_tools_get_their_shell() -> None:
    """They are flat in this API."""
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}
    inner = {"name": "f", "description": None, "parameters": {"type": "object"}, "strict": True}

    read = asked(tools=[tool], tool_choice="none")

    assert json.dumps([{"type": "function", "function": inner}]) == json.dumps(read.tools)
    assert read.tool_choice_none
    assert asked(tools=[]).tools is None


def test_effort_and_template_kwargs_are_read() -> None:
    """They are fields of their own."""
    read = asked(reasoning={"effort": "low"}, chat_template_kwargs={"a": 1})

    assert ("low", {"a": 1}) == (read.reasoning_effort, read.template_kwargs)


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        ("malformed", {"input": 1}),
        ("malformed", {"input": []}),
        ("malformed", {"reasoning": {"effort": 1}}),
        ("elsewhere", {"previous_response_id": "resp_1"}),
        ("truncated", {"truncation": "auto"}),
        ("unsupported", {"tools": [{"type": "web_search"}]}),
        ("unsupported", {"input": [{"type": "file_search_call"}]}),
        ("unsupported", {"input": [{**message("a"), "status": "incomplete"}]}),
        ("unsupported", {"input": [{**CALL, "namespace": "n"}]}),
        ("unsupported", {"input": [{"type": "reasoning", "encrypted_content": "AAAA"}]}),
        ("unsupported", {"input": [{"role": "assistant", "content": []}]}),
        ("unsupported", {"input": [{"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}]}),
        ("unsupported", {"input": [{"role": "assistant", "content": None}]}),
    ],
)
def test_what_only_some_versions_know_is_refused(reason: str, fields: dict[str, Any]) -> None:
    """With its reason."""
    with pytest.raises(Unknowable, match=reason):
        asked(**fields)


def test_no_truncation_is_as_good_as_nothing() -> None:
    """It is the default, by whichever name."""
    assert asked() == asked(truncation="disabled")
