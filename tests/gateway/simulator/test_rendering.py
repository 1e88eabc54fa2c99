from typing import Any

from gateway.simulator.rendering import render_chat

HELLO: list[dict[str, Any]] = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}]


def test_a_chat_as_text() -> None:
    """Messages stand between marks, and the assistant is asked to go on."""
    assert (
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
        == render_chat(HELLO)
    )


def test_tools_come_first() -> None:
    """Whatever the order of their keys."""
    text = render_chat(HELLO, tools=[{"b": 1, "a": 2}])

    assert text.startswith('<|im_start|>tools\n{"a":2,"b":1}<|im_end|>\n<|im_start|>system\n')
    assert text == render_chat(HELLO, tools=[{"a": 2, "b": 1}])


def test_everything_in_a_message_counts() -> None:
    """Tool calls, their ids and names, and parts that are no text are part of the prompt; absent values are not."""
    plain = render_chat([{"role": "assistant", "content": None, "tool_calls": None}])
    variants = [
        render_chat([{"role": "assistant", "content": None, "tool_calls": [{"id": "x"}]}]),
        render_chat([{"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": "a"}}]}]),
        render_chat([{"role": "assistant", "name": "n", "content": ""}]),
        plain,
    ]

    assert 4 == len(set(variants))
    assert plain == render_chat([{"role": "assistant"}])


def test_text_parts_are_text() -> None:
    """A list of text parts is the same prompt as their text."""
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]

    assert render_chat(HELLO) == render_chat([HELLO[0], {"role": "user", "content": parts}])


def test_the_last_message_can_be_continued() -> None:
    """Its end is left open, and nobody else is asked to speak."""
    text = render_chat([*HELLO, {"role": "assistant", "content": "Hi th"}], continue_final_message=True)

    assert text.endswith("<|im_start|>assistant\nHi th")


def test_the_generation_prompt_can_be_left_out() -> None:
    """As for counting the tokens of a history."""
    assert render_chat(HELLO, add_generation_prompt=False).endswith("Hello<|im_end|>\n")
