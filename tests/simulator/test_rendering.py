from typing import Any

import pytest

from simulator.rendering import render_chat

HELLO: list[dict[str, Any]] = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}]


def test_a_chat_as_text() -> None:
    """Messages stand between marks, and the assistant is asked to go on."""
    assert (
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
        == render_chat(HELLO)
    )


def test_a_developer_is_a_system_in_front() -> None:
    """vLLM does this for templates that do not name developers; several systems become one."""
    hello = {"role": "user", "content": "Hello"}
    one = render_chat([{"role": "developer", "content": "Be kind."}, hello])
    two = render_chat([hello, HELLO[0], {"role": "developer", "content": "Be brief."}])

    assert render_chat([{"role": "system", "content": "Be kind."}, hello]) == one
    assert render_chat([{"role": "system", "content": "Be kind.\n\nBe brief."}, hello]) == two


def test_tools_come_first() -> None:
    """In the order of keys that vLLM gives them, without what it does not know; what is no function is left alone."""
    function = {"parameters": {"b": 1, "a": 2}, "name": "f", "x": 1}
    text = render_chat(HELLO, tools=[{"function": function, "type": "function"}, {"b": 1, "a": "é"}])

    assert text.startswith(
        "<|im_start|>tools\n"
        '{"type": "function", "function": {"name": "f", "description": null, "parameters": {"b": 1, "a": 2}}}\n'
        '{"b": 1, "a": "é"}\n'
        "<|im_end|>\n<|im_start|>system\n"
    )


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ({"function": {"strict": True}}, '"strict": true}}'),
        ({"function": {"defer_loading": False}}, '"defer_loading": false}}'),
        ({"function": {}, "defer_loading": True}, '"defer_loading": true}, "defer_loading": true}'),
    ],
)
def test_some_fields_of_a_tool_show_only_where_they_are_set(tool: dict[str, Any], expected: str) -> None:
    assert f'"parameters": null, {expected}\n<|im_end|>' in render_chat(HELLO, tools=[tool])


def test_everything_in_a_message_counts() -> None:
    """Tool calls, names, reasoning and parts that are no text are part of the prompt; absent values are not."""
    called = {"id": "x", "function": {"name": "f", "arguments": "{}"}}
    plain = render_chat([{"role": "assistant", "content": None, "tool_calls": None}])
    variants = [
        render_chat([{"role": "assistant", "content": None, "tool_calls": [called]}]),
        render_chat([{"role": "assistant", "content": None, "tool_calls": [called | {"id": "y"}]}]),
        render_chat([{"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": "a"}}]}]),
        render_chat([{"role": "assistant", "name": "n", "content": ""}]),
        render_chat([{"role": "assistant", "reasoning": "r", "content": ""}]),
        plain,
    ]

    assert 6 == len(set(variants))
    assert plain == render_chat([{"role": "assistant"}])


def test_a_result_of_a_tool_names_its_call() -> None:
    """Nothing else does."""
    messages = [{"role": role, "tool_call_id": "c1", "content": "4"} for role in ("tool", "user")]

    assert "<|im_start|>tool\ncall: c1\n4<|im_end|>\n<|im_start|>user\n4<|im_end|>\n" == render_chat(
        messages, add_generation_prompt=False
    )


@pytest.mark.parametrize("given", ['{"a":1}', {"a": 1}])
def test_arguments_of_a_call_are_an_object(given: Any) -> None:
    """Whether they came as one or as its text."""
    call = {"id": "x", "function": {"name": "f", "arguments": given}}
    text = render_chat([{"role": "assistant", "content": "so", "tool_calls": [call]}], add_generation_prompt=False)

    assert '<|im_start|>assistant\nso\n<tool_call>x f {"a": 1}<|im_end|>\n' == text


@pytest.mark.parametrize("given", [None, "", "{", "[1]", 5])
def test_arguments_that_are_no_object_are_empty(given: Any) -> None:
    call = {"function": {"arguments": given}}

    assert "\n<tool_call>  {}<|im_end|>" in render_chat([{"role": "assistant", "tool_calls": [call]}])


def test_text_parts_are_lines() -> None:
    """A list of parts is the same prompt as their texts, one a line; a part without any is nothing."""
    parts = [{"type": "text", "text": "Hel"}, "l", {"type": "text", "text": None}, {"type": "refusal", "refusal": "o"}]

    assert render_chat([{"role": "user", "content": "Hel\nl\no"}]) == render_chat([{"role": "user", "content": parts}])


def test_the_last_message_can_be_continued() -> None:
    """Its end is left open, and no one else is asked to speak."""
    text = render_chat([*HELLO, {"role": "assistant", "content": "Hi th"}], continue_final_message=True)

    assert text.endswith("<|im_start|>assistant\nHi th")


def test_the_generation_prompt_can_be_left_out() -> None:
    assert render_chat(HELLO, add_generation_prompt=False).endswith("Hello<|im_end|>\n")


def test_a_call_of_a_message_that_goes_on_is_left_out() -> None:
    """The text goes on where the content ends."""
    call = {"function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": "Hi th", "tool_calls": [call]}

    assert render_chat([message], continue_final_message=True).endswith("assistant\nHi th")
