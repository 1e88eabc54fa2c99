"""Anthropic's body as a chat; the expected messages are those that vLLM 0.32 makes of the same body."""

import json
from typing import Any

import pytest

from gateway.models.tokenizing.asked import AskedChat
from gateway.models.tokenizing.exactness import Unknowable
from gateway.models.tokenizing.messages_body import asked_of_messages

USER = {"role": "user", "content": "hi"}


def asked(**fields: Any) -> AskedChat:
    body = {"model": "m", "max_tokens": 5, "messages": [USER], **fields}
    return asked_of_messages(json.dumps(body).encode())


def test_a_plain_turn_stays_as_it_is() -> None:
    """There is nothing to convert."""
    assert AskedChat(messages=[USER]) == asked()


def test_the_system_prompt_comes_first_without_the_billing_header() -> None:
    """Its blocks are put together with nothing between."""
    system = [
        {"type": "text", "text": "x-anthropic-billing-header: cch=1"},
        {"type": "text", "text": "Be ", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "brief."},
        {"type": "text", "text": None},
    ]

    assert [{"role": "system", "content": "Be brief."}, USER] == asked(system=system).messages
    assert [{"role": "system", "content": "Be brief."}, USER] == asked(system="Be brief.").messages
    assert [USER] == asked(system="").messages


def test_results_of_tools_come_before_the_rest_of_their_turn() -> None:
    """Each is a message; a turn of nothing else leaves no other."""
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": t} for t in ("a", "b")]}
    empty = {"type": "tool_result", "tool_use_id": "t2"}
    turn = {"role": "user", "content": [{"type": "text", "text": "and?"}, result, empty]}
    tools = [
        {"role": "tool", "tool_call_id": "t1", "content": "a\nb"},
        {"role": "tool", "tool_call_id": "t2", "content": ""},
    ]

    assert [*tools, {"role": "user", "content": "and?"}] == asked(messages=[turn]).messages
    assert [*tools] == asked(messages=[{"role": "user", "content": [result, empty]}]).messages


def test_thinking_and_calls_are_fields_of_the_assistant() -> None:
    """Text stays content: one part as a string, several as parts; empty ones go."""
    thinking = [{"type": "thinking", "thinking": t, "signature": "s"} for t in ("Is it? ", "Yes.")]
    use = {"type": "tool_use", "id": "t1", "name": "f", "input": {"b": 1, "a": "\u00e9"}}
    texts = [{"type": "text", "text": t} for t in ("One.", "", "Two.")]
    call = {"id": "t1", "function": {"arguments": '{"b": 1, "a": "\\u00e9"}', "name": "f"}, "type": "function"}

    several = asked(messages=[USER, {"role": "assistant", "content": [*thinking, *texts, use]}]).messages[1]
    single = asked(messages=[USER, {"role": "assistant", "content": texts[:1]}]).messages[1]
    nothing = asked(messages=[USER, {"role": "assistant", "content": [{"type": "redacted_thinking"}]}]).messages[1]

    assert json.dumps(
        {
            "role": "assistant",
            "reasoning": "Is it? Yes.",
            "tool_calls": [call],
            "content": [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}],
        }
    ) == json.dumps(several)
    assert {"role": "assistant", "content": "One."} == single
    assert {"role": "assistant"} == nothing


def test_images_are_parts() -> None:
    """Where they stand matters, what they are does not: nothing behind them is exact."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    turn = {"role": "user", "content": [{"type": "text", "text": "see"}, image]}

    assert ["text", "image_url"] == [part["type"] for part in asked(messages=[turn]).messages[0]["content"]]


def test_tools_become_functions() -> None:
    """A schema is an object even where it does not say so."""
    tool = {"name": "f", "description": "d", "input_schema": {"properties": {}}, "cache_control": {"type": "ephemeral"}}
    written = {
        "type": "function",
        "function": {"name": "f", "description": "d", "parameters": {"properties": {}, "type": "object"}},
    }

    read = asked(tools=[tool], tool_choice={"type": "none"})

    assert json.dumps([written]) == json.dumps(read.tools)
    assert read.tool_choice_none


def test_template_kwargs_are_passed_on() -> None:
    """VLLM takes them here too."""
    assert {"a": 1} == asked(chat_template_kwargs={"a": 1}).template_kwargs


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        ("malformed", {"messages": 1}),
        ("malformed", {"messages": []}),
        ("malformed", {"messages": [{"role": "tool", "content": "a"}]}),
        ("malformed", {"tools": [{"name": "f"}]}),
        ("malformed", {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": 2}]}]}),
        ("unsupported", {"tools": []}),
        ("unsupported", {"messages": [USER, {"role": "system", "content": "a"}]}),
        ("unsupported", {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "name": "f"}]}]}),
        ("unsupported", {"messages": [{"role": "assistant", "content": [{"type": "tool_result"}]}]}),
        ("unsupported", {"messages": [{"role": "user", "content": [{"type": "tool_reference"}]}]}),
        (
            "unsupported",
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": [{"type": "image"}]}]}]},
        ),
        ("unsupported", {"thinking": {"type": "disabled"}}),
        ("unsupported", {"output_config": {"effort": "low"}}),
    ],
)
def test_what_depends_on_more_than_the_body_is_refused(reason: str, fields: dict[str, Any]) -> None:
    """With its reason."""
    with pytest.raises(Unknowable, match=reason):
        asked(**fields)


def test_a_budget_for_thinking_changes_no_prompt() -> None:
    """Only the wish not to think does."""
    assert asked() == asked(thinking={"type": "enabled", "budget_tokens": 2000}, output_config={"format": None})
