"""What the body of a chat completion asks for."""

import json
from typing import Any

import pytest

from gateway.models.tokenizing.asked import AskedChat
from gateway.models.tokenizing.chat_body import asked_of_chat
from gateway.models.tokenizing.exactness import Unknowable

USER = {"role": "user", "content": "hi"}


def asked(**fields: Any) -> AskedChat:
    return asked_of_chat(json.dumps({"model": "m", "messages": [USER], **fields}).encode())


def test_a_plain_chat_has_the_engines_defaults() -> None:
    """A generation prompt, and no tokens but the template's."""
    assert AskedChat(messages=[USER]) == asked()


def test_every_field_that_shows_in_the_prompt_is_read() -> None:
    """Others are not: sampling does not matter."""
    tool = {"type": "function", "function": {"name": "f", "description": None, "parameters": None}}
    expected = AskedChat(
        messages=[USER],
        tools=[tool],
        tool_choice_none=True,
        documents=[{"text": "d"}],
        template_kwargs={"enable_thinking": False},
        reasoning_effort="low",
        add_generation_prompt=False,
        continue_final_message=True,
        add_special_tokens=True,
    )

    assert expected == asked(
        tools=[{"type": "function", "function": {"name": "f"}}],
        tool_choice="none",
        documents=[{"text": "d"}],
        chat_template_kwargs={"enable_thinking": False},
        reasoning_effort="low",
        add_generation_prompt=False,
        continue_final_message=True,
        add_special_tokens=True,
        temperature=0.5,
    )


def test_tool_calls_have_their_keys_in_one_order() -> None:
    """The order is that of vLLM's types; unknown keys come behind."""
    call = {"index": 0, "type": "function", "function": {"name": "f", "x": 1, "arguments": "{}"}, "id": "1"}
    ordered = {"id": "1", "function": {"arguments": "{}", "name": "f", "x": 1}, "type": "function", "index": 0}

    read = asked(messages=[USER, {"role": "assistant", "tool_calls": [call]}])

    assert json.dumps([ordered]) == json.dumps(read.messages[1]["tool_calls"])


def test_what_are_no_tool_calls_is_left_for_others_to_refuse() -> None:
    """Reading does not judge messages."""
    messages = [{"role": "assistant", "tool_calls": [1, {"function": 2}]}]

    assert messages == asked(messages=messages).messages


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        ("malformed", {"messages": []}),
        ("malformed", {"messages": "hi"}),
        ("malformed", {"messages": [1]}),
        ("malformed", {"tools": []}),
        ("malformed", {"add_generation_prompt": "yes"}),
        ("malformed", {"documents": [{"text": 1}]}),
        ("own_template", {"chat_template": "{{ messages }}"}),
        ("truncated", {"truncate_prompt_tokens": 10}),
        ("unsupported", {"input_ids": [1]}),
        ("unsupported", {"kv_transfer_params": {"prompt_token_ids": [1]}}),
    ],
)
def test_what_needs_more_than_the_template_is_refused(reason: str, fields: dict[str, Any]) -> None:
    """With its reason."""
    with pytest.raises(Unknowable, match=reason):
        asked(**fields)


def test_other_transfer_parameters_change_nothing() -> None:
    """Only ids stand for the messages."""
    assert asked() == asked(kv_transfer_params={"do_remote_decode": True})
