"""Prompt and answer as messages, within a limit."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.telemetry.trace_export.messages import input_messages, output_messages

MOST = 10_000


def asked(body: Any, most_bytes: int = MOST) -> Any:
    result = input_messages(json.dumps(body).encode(), most_bytes)
    return None if result is None else json.loads(result)


def answered(answer: bytes | dict[str, Any], most_bytes: int = MOST) -> Any:
    result = output_messages(json.dumps(answer).encode() if isinstance(answer, dict) else answer, most_bytes)
    return None if result is None else json.loads(result)


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


def stream(*events: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in events) + b"data: [DONE]\n\n"


def test_a_chat_is_its_messages() -> None:
    """Tools are called and answer, pictures are named and left out."""
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"x":1}'}}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,secret"}}
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "what is this?"}, picture, "odd"]},
        {"role": "assistant", "content": None, "tool_calls": [call, "odd", {"id": "c2", "function": "odd"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "a cat"},
        "odd",
    ]

    assert [
        {"role": "system", "parts": [text("be brief")]},
        {"role": "user", "parts": [text("what is this?"), {"type": "image_url"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "look", "arguments": '{"x":1}'}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "a cat"}]},
        {"role": "user", "parts": [text("odd")]},
    ] == asked({"model": "m", "messages": messages})


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        ({"prompt": "once"}, [{"role": "user", "parts": [text("once")]}]),
        ({"prompt": ["once", [1, 2]]}, [{"role": "user", "parts": [text("once")]}, {"role": "user", "parts": []}]),
        (
            {"instructions": "be brief", "input": "hi"},
            [{"role": "system", "parts": [text("be brief")]}, {"role": "user", "parts": [text("hi")]}],
        ),
        (
            {"input": [{"type": "function_call_output", "call_id": "c1", "output": "a cat"}]},
            [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "a cat"}]}],
        ),
        (
            {"system": [{"type": "text", "text": "be brief"}], "messages": [{"role": "user", "content": "hi"}]},
            [{"role": "system", "parts": [text("be brief")]}, {"role": "user", "parts": [text("hi")]}],
        ),
        (
            {
                "messages": [
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {"a": 1}}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r"}]},
                ]
            },
            [
                {"role": "assistant", "parts": [{"type": "tool_call", "id": "t", "name": "n", "arguments": {"a": 1}}]},
                {"role": "user", "parts": [{"type": "tool_call_response", "id": "t", "response": "r"}]},
            ],
        ),
        ({"input": 7}, None),
        ([], None),
    ],
)
def test_other_apis_have_messages_as_well(body: Any, messages: Any) -> None:
    assert messages == asked(body)


def test_a_whole_answer_is_a_message_for_each_choice() -> None:
    call = {"id": "c1", "function": {"name": "look", "arguments": "{}"}}
    choices = [
        {"message": {"content": "yes"}, "finish_reason": "stop"},
        {"message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"},
        {"text": "once upon", "finish_reason": None},
    ]
    result = {"type": "tool_call", "id": "c1", "name": "look", "arguments": "{}"}

    assert [
        {"role": "assistant", "parts": [text("yes")], "finish_reason": "stop"},
        {"role": "assistant", "parts": [result], "finish_reason": "tool_calls"},
        {"role": "assistant", "parts": [text("once upon")], "finish_reason": ""},
    ] == answered({"choices": choices})


@pytest.mark.parametrize(
    "answer",
    [
        {"output": [{"status": "done", "content": [{"type": "output_text", "text": "yes"}]}]},
        {"type": "message", "content": [{"type": "text", "text": "yes"}], "stop_reason": "done"},
    ],
)
def test_other_apis_have_answers_as_well(answer: dict[str, Any]) -> None:
    assert [{"role": "assistant", "parts": [text("yes")], "finish_reason": "done"}] == answered(answer)


def test_the_pieces_of_a_stream_are_joined() -> None:
    """Messages are by choice; parts without text and cut-off ones are left out."""
    call = {"index": 0, "id": "c1", "function": {"name": "look", "arguments": ""}}
    events = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
        {"choices": [{"index": 0, "delta": {"content": "Hel"}}, {"index": 1, "delta": {"content": "Bye"}}]},
        {"choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": None}]},
        {"choices": [{"index": 1, "delta": {"tool_calls": [call, {"index": 0, "function": {"arguments": "{"}}]}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {}},
    ]
    result = {"type": "tool_call", "id": "c1", "name": "look", "arguments": ""}

    assert [
        {"role": "assistant", "parts": [text("Hello")], "finish_reason": "stop"},
        {"role": "assistant", "parts": [text("Bye"), result], "finish_reason": ""},
    ] == answered(b": keep-alive\n\n" + stream(*events) + b'data: {"choices":[{"del')


@pytest.mark.parametrize(
    "events",
    [
        [{"choices": [{"text": "Hel"}]}, {"choices": [{"text": "lo"}]}],
        [
            {"type": "response.output_text.delta", "delta": "Hel"},
            {"type": "response.output_text.delta", "delta": "lo"},
            {"type": "response.completed", "response": {}},
        ],
        [
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hello"}},
            {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{"}},
        ],
    ],
)
def test_streams_of_other_apis_are_joined_as_well(events: list[Any]) -> None:
    (message,) = answered(stream(*events))

    assert [text("Hello")] == message["parts"]


@pytest.mark.parametrize("answer", [b"", b"data: [DONE]\n\n", b"{}", b"{", b"\xff", b"data: {\xff}\n\n"])
def test_an_answer_without_text_has_no_messages(answer: bytes) -> None:
    assert answered(answer) is None


def test_of_what_is_too_long_the_last_stays() -> None:
    """It is what the request is about; what is cut says so."""
    messages = [{"role": "user", "content": letter * 50} for letter in "abc"]
    result = asked({"messages": messages}, most_bytes=150)

    assert ["b", "c"] == [message["parts"][0]["content"][0] for message in result]
    assert "c" * 50 == result[1]["parts"][0]["content"]
    assert result[0]["parts"][0]["content"].endswith("b… [cut]")


@given(texts=st.lists(st.text(max_size=60), min_size=1, max_size=8), most_bytes=st.integers(1, 300))
def test_messages_fit_their_limit(texts: list[str], most_bytes: int) -> None:
    """The limit holds for text and the JSON around it."""
    result = asked({"messages": [{"role": "user", "content": each} for each in texts]}, most_bytes)
    parts = [part["content"] for message in result or [] for part in message["parts"]]

    assert sum(len(part.removesuffix("… [cut]").encode()) for part in parts) <= most_bytes
    assert [part for part in parts if not any(each.startswith(part.removesuffix("… [cut]")) for each in texts)] == []
