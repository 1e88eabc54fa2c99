from typing import Any

import pytest

from gateway.backends.bedrock.message import ChatMessage, Reasoning, ToolCall, ToolResult, read_messages
from gateway.protocol.errors import InvalidField
from tests.gateway.backends.bedrock.chats import PDF, PNG

IMAGE = {"image": {"format": "png", "source": {"bytes": PNG}}}


def read(message: Any) -> ChatMessage:
    return read_messages([message])[0]


@pytest.mark.parametrize("role", ["system", "developer"])
def test_the_system_has_two_names(role: str) -> None:
    assert ChatMessage("system", ({"text": "Be brief."},)) == read({"role": role, "content": "Be brief."})


def test_content_may_have_parts() -> None:
    """Text, images in both of their forms, files; strings as parts, as vLLM takes them."""
    url = f"data:image/png;base64,{PNG}"
    content = [
        {"type": "text", "text": "one"},
        "two",
        {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
        {"type": "image_url", "image_url": url},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
    ]
    document = {"document": {"format": "pdf", "name": "a", "source": {"bytes": PDF}}}

    assert ({"text": "one"}, {"text": "two"}, IMAGE, IMAGE, document) == read(
        {"role": "user", "content": content}
    ).blocks


def test_documents_of_two_messages_have_two_names() -> None:
    file = {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}}
    messages = read_messages([{"role": "user", "content": [file]}] * 2)

    assert ["a", "a 2"] == [message.blocks[0]["document"]["name"] for message in messages]


def test_blank_text_is_left_out() -> None:
    assert () == read({"role": "user", "content": [{"type": "text", "text": " \n"}, ""]}).blocks
    assert read({"role": "assistant", "content": None}).is_empty


def test_a_refusal_is_text() -> None:
    """In both forms in which OpenAI's history holds it; thoughts are left out."""
    assert ({"text": "Never."}, {"text": "No."}) == read(
        {
            "role": "assistant",
            "content": [{"type": "refusal", "refusal": "Never."}],
            "refusal": "No.",
            "reasoning_content": "Hm.",
        }
    ).blocks


def test_calls_are_read() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}

    assert ChatMessage("assistant", (), calls=(ToolCall("c", "add", {"a": 1}),)) == read(
        {"role": "assistant", "content": "", "tool_calls": [call], "function_call": None}
    )


def test_a_call_of_the_older_form_has_no_id() -> None:
    assert (ToolCall(None, "add", {"a": 1}),) == read(
        {"role": "assistant", "content": None, "function_call": {"name": "add", "arguments": '{"a": 1}'}}
    ).calls


@pytest.mark.parametrize(
    ("arguments", "parsed"),
    [
        ('{"a": {"b": [1, null]}}', {"a": {"b": [1, None]}}),
        ({"a": 1}, {"a": 1}),
        ("", {}),
        (" ", {}),
        ("null", {}),
        (None, {}),
        ("[1, 2]", {"value": "[1, 2]"}),
        ('{"a": ', {"value": '{"a": '}),
        ("plain", {"value": "plain"}),
        (7, {"value": 7}),
        ('{"a":' * 200 + "1" + "}" * 200, {"value": '{"a":' * 200 + "1" + "}" * 200}),
    ],
)
def test_arguments_are_always_an_object(arguments: object, parsed: dict[str, Any]) -> None:
    """A model also calls with nothing, or with what is no object; none of it is lost."""
    call = {"id": "c", "function": {"name": "add", "arguments": arguments}}

    assert parsed == read({"role": "assistant", "tool_calls": [call]}).calls[0].arguments


def test_results_are_read() -> None:
    assert ToolResult("c", None, ({"text": "4"},)) == read({"role": "tool", "tool_call_id": "c", "content": "4"}).result
    assert ToolResult(None, "add", ({"text": "4"},)) == read({"role": "function", "name": "add", "content": "4"}).result
    assert ToolResult("c", None, ()) == read({"role": "tool", "tool_call_id": "c", "content": None}).result


def test_a_result_may_hold_an_image() -> None:
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}

    assert ToolResult("c", None, (IMAGE,)) == read({"role": "tool", "tool_call_id": "c", "content": [part]}).result


@pytest.mark.parametrize("messages", [None, [], "hello", {}])
def test_messages_must_be_there(messages: object) -> None:
    with pytest.raises(InvalidField, match="non-empty array"):
        read_messages(messages)


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("hello", "messages[0]"),
        ({"content": "x"}, "messages[0].role"),
        ({"role": ["user"], "content": "x"}, "messages[0].role"),
        ({"role": "narrator", "content": "x"}, "messages[0].role"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": 7}, "messages[0].content"),
        ({"role": "user", "content": [7]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{"text": "x"}]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "messages[0].content[0]"),
        ({"role": "user", "content": ["x", {"type": "input_audio", "input_audio": {}}]}, "messages[0].content[1]"),
        ({"role": "user", "content": [{"type": "video_url", "video_url": {}}]}, "messages[0].content[0]"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a/b.png"}}]},
            "messages[0].content[0].image_url",
        ),
        (
            {"role": "system", "content": [{"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}}]},
            "messages[0].content",
        ),
        ({"role": "assistant", "content": None, "audio": {"id": "a"}}, "messages[0].audio"),
        ({"role": "assistant", "tool_calls": {}, "content": 7}, "messages[0].content"),
        ({"role": "assistant", "tool_calls": "x"}, "messages[0].tool_calls"),
        ({"role": "assistant", "tool_calls": [{"id": "c"}]}, "messages[0].tool_calls[0]"),
        ({"role": "assistant", "tool_calls": [7]}, "messages[0].tool_calls[0]"),
        (
            {"role": "assistant", "tool_calls": [{"type": "custom", "function": {"name": "f"}}]},
            "messages[0].tool_calls[0]",
        ),
        ({"role": "assistant", "function_call": {"arguments": "{}"}}, "messages[0].function_call"),
    ],
)
def test_what_cannot_be_served_is_refused_with_its_place(message: object, param: str) -> None:
    with pytest.raises(InvalidField) as caught:
        read(message)

    assert param == caught.value.param


@pytest.mark.parametrize(
    ("fields", "thoughts"),
    [
        ({"reasoning_content": "Hm."}, (Reasoning("Hm."),)),
        ({"reasoning": "Hm."}, (Reasoning("Hm."),)),
        ({"reasoning_content": " "}, ()),
        ({"thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]}, (Reasoning("Hm.", "s"),)),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                    {"type": "redacted_thinking", "data": "d"},
                    {"type": "reasoning", "text": "So."},
                    {"type": "text", "text": "Four."},
                ]
            },
            (Reasoning("Hm.", "s"), Reasoning("", "d", is_redacted=True), Reasoning("So.")),
        ),
    ],
)
def test_thoughts_are_read_wherever_clients_put_them(fields: dict[str, Any], thoughts: tuple[Reasoning, ...]) -> None:
    """In engines' fields, in LiteLLM's, and in Anthropic's parts of the content, of which none is an answer."""
    (message,) = read_messages([{"role": "assistant", "content": "Four.", **fields}])

    assert (thoughts, ({"text": "Four."},)) == (message.reasoning, message.blocks)


def test_a_user_has_no_thoughts() -> None:
    """Such a part of a user's is a medium that no one takes."""
    with pytest.raises(InvalidField):
        read_messages([{"role": "user", "content": [{"type": "thinking", "thinking": "Hm."}]}])
