"""Requests of one tool loop have one digest, in every API."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.protocol.body import Body, parse_chat, parse_completion
from gateway.protocol.endpoints.messages import parse_messages
from gateway.protocol.endpoints.responses import parse_responses
from gateway.protocol.tool_loop import ToolLoop, messages_before_results, tool_loop

Items = list[dict[str, Any]]

CHAT: Items = [
    {"role": "system", "content": "You are an agent."},
    {"role": "user", "content": "What is the weather?"},
    {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "weather", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "sunny"},
    {"role": "user", "content": "A reminder that an agent adds."},
    {"role": "assistant", "tool_calls": [{"id": "2", "function": {"name": "time", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "2", "content": "noon"},
    {"role": "assistant", "content": "It is sunny at noon."},
    {"role": "user", "content": "Thank you."},
]
MESSAGES: Items = [
    {"role": "user", "content": [{"type": "text", "text": "What is the weather?", "cache_control": {"type": "a"}}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "weather", "input": {}}]},
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": "sunny"},
            {"type": "text", "text": "Go on."},
        ],
    },
    {"role": "assistant", "content": [{"type": "tool_use", "id": "2", "name": "time", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "2", "content": "noon"}]},
]
RESPONSES: Items = [
    {"role": "user", "content": "What is the weather?"},
    {"type": "reasoning", "id": "r1", "summary": []},
    {"type": "function_call", "call_id": "1", "name": "weather", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "1", "output": "sunny"},
    {"type": "computer_call", "call_id": "2", "action": {}},
    {"type": "computer_call_output", "call_id": "2", "output": {"type": "input_image", "image_url": "x"}},
]
TOOLS = [{"type": "function", "function": {"name": "weather"}}]


def of_chat(messages: Items, **more: Any) -> ToolLoop | None:
    return found(parse_chat, {"messages": messages, "tools": TOOLS, **more})


def of_messages(messages: Items) -> ToolLoop | None:
    return found(parse_messages, {"messages": messages, "tools": TOOLS, "max_tokens": 9})


def of_responses(items: Items) -> ToolLoop | None:
    return found(parse_responses, {"input": items, "tools": TOOLS})


def found(parse: Callable[[bytes], Body], body: dict[str, Any]) -> ToolLoop | None:
    return tool_loop(parse(json.dumps({"model": "chat", **body}).encode()).prompt)


@pytest.mark.parametrize(
    ("of", "items", "ends"),
    [(of_chat, CHAT, [2, 4, 5, 7]), (of_messages, MESSAGES, [1, 3, 5]), (of_responses, RESPONSES, [1, 4, 6])],
)
def test_all_requests_of_a_loop_have_one_digest(
    of: Callable[[Items], ToolLoop | None], items: Items, ends: list[int]
) -> None:
    """Only the first request of a loop has no results."""
    loops = [of(items[:end]) for end in ends]

    assert 1 == len({loop.digest for loop in loops if loop is not None})
    assert [False] + [True] * (len(ends) - 1) == [loop is not None and loop.has_results for loop in loops]


def test_the_next_message_of_the_user_begins_another_loop() -> None:
    first, second = of_chat(CHAT[:2]), of_chat(CHAT)

    assert first is not None
    assert second is not None
    assert first.digest != second.digest
    assert not second.has_results


def test_marks_for_caches_that_move_change_nothing() -> None:
    """Agents mark the last message of each request."""
    unmarked = [{"role": "user", "content": [{"type": "text", "text": "What is the weather?"}]}]
    first, second = of_messages(MESSAGES[:1]), of_messages([*unmarked, *MESSAGES[1:3]])

    assert first is not None
    assert second is not None
    assert first.digest == second.digest


def test_tools_can_change_inside_a_loop() -> None:
    first, second = of_chat(CHAT[:2]), of_chat(CHAT[:4], tools=[*TOOLS, *TOOLS])
    last = of_chat(CHAT[:4], tools=None)

    assert first is not None
    assert second is not None
    assert last is not None
    assert first.digest == second.digest == last.digest


def test_a_loop_that_begins_otherwise_is_another_loop() -> None:
    """For example, with another system prompt."""
    one, other = of_chat(CHAT[:4]), of_chat([{"role": "system", "content": "x"}, *CHAT[1:4]])

    assert one is not None
    assert other is not None
    assert one.digest != other.digest


def test_the_beginning_is_the_part_before_the_calls() -> None:
    first, second = of_chat(CHAT[:2]), of_chat(CHAT[:4])
    whole = parse_chat(json.dumps({"model": "chat", "messages": CHAT[:2], "tools": TOOLS}).encode()).prompt

    assert first is not None
    assert second is not None
    assert len(whole) == first.beginning == second.beginning


@pytest.mark.parametrize(
    "prompt",
    [
        parse_chat(b'{"model": "m", "messages": [{"role": "user", "content": "What are \\"tools\\":?"}]}').prompt,
        parse_chat(b'{"model": "m", "messages": [{"role": "tool", "content": "x"}]}').prompt,
        parse_chat(b'{"model": "m", "tools": [{}], "messages": [{"role": "system", "content": "x"}]}').prompt,
        parse_completion(b'{"model": "m", "prompt": "user"}').prompt,
        b"",
    ],
)
def test_a_request_without_tools_or_without_a_user_is_in_no_loop(prompt: bytes) -> None:
    assert tool_loop(prompt) is None


@pytest.mark.parametrize(
    ("items", "kept"),
    [(CHAT[:7], 2), (CHAT, 9), (CHAT[:2], 2), (MESSAGES, 1), (RESPONSES, 1), ([], 0), (["text", *CHAT[1:4]], 2)],
)
def test_messages_before_results(items: Items, kept: int) -> None:
    """All messages, if the last one is no result."""
    assert items[:kept] == messages_before_results(items)
