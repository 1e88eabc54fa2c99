"""Chats as text. The longer expectations are what transformers 5.19 gives under vLLM 0.32 for the same request."""

from typing import Any

import jinja2
import pytest

from gateway.models.tokenizing.asked import AskedChat
from gateway.models.tokenizing.chat_template import ChatTemplate
from gateway.models.tokenizing.engine_flags import EngineFlags
from gateway.models.tokenizing.exactness import Unknowable
from tests.gateway.models.tokenizing.examples import NEW_YEAR, template
from tests.gateway.models.tokenizing.templates import CHATML, EVERYTHING_AS_JSON, LLAMA3, QWEN3, VISION

USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "description": "é", "parameters": None}}
CALL = {"id": "1", "function": {"arguments": '{"a": 1.50}', "name": "f"}, "type": "function"}


def text(source: str, *messages: dict[str, Any], flags: EngineFlags | None = None, **fields: Any) -> str:
    chat = AskedChat(messages=messages or [USER], **fields)
    return template(source, flags=flags, special_tokens={"bos_token": "<|bos|>"}).render(chat).text


def test_chatml() -> None:
    """Messages, and where the assistant begins."""
    assert "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n" == text(CHATML)
    assert "<|im_start|>user\nhi<|im_end|>\n" == text(CHATML, add_generation_prompt=False)


def test_all_of_a_plain_prompt_is_certain() -> None:
    """No more tokens are added unless the caller says so."""
    rendered = template(CHATML).render(AskedChat(messages=[USER], add_special_tokens=True))

    assert len(rendered.text) == rendered.exact_characters
    assert rendered.add_special_tokens


def test_llama_writes_the_date_and_its_own_beginning() -> None:
    """From the engine's clock, and the tokenizer's special tokens."""
    head = "<|bos|><|start_header_id|>system<|end_header_id|>\n\nToday Date: 01 Jan 2026\n\n<|eot_id|>"

    assert (
        head
        + "<|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
        == text(LLAMA3)
    )


def test_llama_with_a_tool_and_its_use() -> None:
    """Tools are written with indent, calls and results as JSON."""
    rendered = text(
        LLAMA3,
        {"role": "system", "content": " Be brief. "},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "1", "content": "42"},
        tools=[TOOL],
        template_kwargs={"date_string": "1 May 2025"},
    )

    assert (
        "<|bos|><|start_header_id|>system<|end_header_id|>\n\nEnvironment: ipython\nToday Date: 1 May 2025\n\n"
        '{\n    "type": "function",\n    "function": {\n        "name": "f",\n        "description": "é",\n'
        '        "parameters": null\n    }\n}\n\nBe brief.<|eot_id|>'
        '<|start_header_id|>assistant<|end_header_id|>\n\n{"name": "f", "parameters": {"a": 1.5}}<|eot_id|>'
        '<|start_header_id|>ipython<|end_header_id|>\n\n"42"<|eot_id|>'
        "<|start_header_id|>assistant<|end_header_id|>\n\n" == rendered
    )


def test_a_template_that_refuses_is_refused() -> None:
    """Here two calls at once, which it does not know."""
    message = {"role": "assistant", "content": "", "tool_calls": [CALL, CALL]}

    with pytest.raises(Unknowable, match="template") as refused:
        text(LLAMA3, message)
    assert refused.value.__cause__ is None


def test_qwen_drops_reasoning_of_earlier_turns() -> None:
    """It keeps that of the current turn."""
    thought = {"role": "assistant", "content": "yes", "reasoning": "hm"}

    assert (
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyes<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
        "<|im_start|>assistant\n<think>\nhm\n</think>\n\nyes<|im_end|>\n<|im_start|>assistant\n"
        == text(QWEN3, USER, thought, USER, thought)
    )


def test_qwen_with_tools() -> None:
    """One line each, behind what the system says; calls and their results."""
    rendered = text(
        QWEN3,
        {"role": "system", "content": "Be brief."},
        USER,
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "1", "content": "42"},
        tools=[TOOL],
    )

    assert (
        "<|im_start|>system\nBe brief.\n\n# Tools\n\n<tools>\n"
        '{"type": "function", "function": {"name": "f", "description": "é", "parameters": null}}\n</tools><|im_end|>\n'
        "<|im_start|>user\nhi<|im_end|>\n"
        '<|im_start|>assistant\n<tool_call>\n{"name": "f", "arguments": {"a": 1.5}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\n42\n</tool_response><|im_end|>\n<|im_start|>assistant\n" == rendered
    )


@pytest.mark.parametrize(
    ("thinks", "fields"),
    [
        (True, {}),
        (False, {"template_kwargs": {"enable_thinking": False}}),
        (False, {"reasoning_effort": "none"}),
        (True, {"reasoning_effort": "low"}),
        (True, {"reasoning_effort": "none", "template_kwargs": {"enable_thinking": True}}),
        (False, {"flags": EngineFlags(default_template_kwargs={"enable_thinking": False})}),
        (True, {"flags": EngineFlags({"enable_thinking": False}), "template_kwargs": {"enable_thinking": True}}),
        (False, {"flags": EngineFlags({"enable_thinking": False}), "template_kwargs": {"enable_thinking": None}}),
        (True, {"flags": EngineFlags({"enable_thinking": False}), "reasoning_effort": "high"}),
    ],
)
def test_thinking_is_asked_for_in_several_ways(thinks: bool, fields: dict[str, Any]) -> None:
    """The caller's variables, then what follows from the effort, then the engine's defaults; null says nothing."""
    tail = "<|im_start|>assistant\n" + ("" if thinks else "<think>\n\n</think>\n\n")

    assert text(QWEN3, **fields).endswith(tail)


def test_everything_reaches_the_template() -> None:
    """In this form, in this order; what it does not know by name stays out."""
    rendered = text(
        EVERYTHING_AS_JSON,
        *[USER] * 4,
        tools=[TOOL],
        documents=[{"text": "d"}],
        reasoning_effort="low",
        template_kwargs={"mood": "auto", "unknown": 1, "bos_token": "X"},
    )

    user = '{"role": "user", "content": "hi"}'
    assert (
        '[{"type": "function", "function": {"name": "f", "description": "é", "parameters": null}}]'
        f'[{{"text": "d"}}][{user}, {user}, {user}, {user}]'
        "<|im_start|>user<|im_start|>user<|im_start|>userTrue low  X " == rendered
    )


def test_null_and_auto_override_no_default() -> None:
    """Neither of the caller's own nor of the engine's."""
    assert text(EVERYTHING_AS_JSON, template_kwargs={"mood": "auto"}, flags=EngineFlags({"mood": "x"})).endswith(
        "x <|bos|> "
    )
    assert text(EVERYTHING_AS_JSON, template_kwargs={"documents": [{"text": "d"}]}).startswith('null[{"text": "d"}]')


@pytest.mark.parametrize(("excludes", "shown"), [(True, "null"), (False, "[{")])
def test_an_engine_can_leave_out_tools_that_are_not_to_be_called(excludes: bool, shown: str) -> None:
    """If it was started so."""
    flags = EngineFlags(excludes_tools_when_none=excludes)

    assert text(EVERYTHING_AS_JSON, tools=[TOOL], tool_choice_none=True, flags=flags).startswith(shown)


def test_tools_can_have_a_template_of_their_own() -> None:
    """Where the model names one for them."""
    sources = {"default": "plain", "tool_use": "with tools"}
    chosen = ChatTemplate(sources, special_tokens={}, flags=EngineFlags(), now=lambda: NEW_YEAR)
    only_tools = ChatTemplate({"tool_use": "x"}, special_tokens={}, flags=EngineFlags(), now=lambda: NEW_YEAR)

    assert "plain" == chosen.render(AskedChat(messages=[USER])).text
    assert "with tools" == chosen.render(AskedChat(messages=[USER], tools=[TOOL])).text
    with pytest.raises(Unknowable, match="template"):
        only_tools.render(AskedChat(messages=[USER]))


@pytest.mark.parametrize(
    ("content", "end"),
    [("so far", "so far"), ("so far \n", "so far \n"), ("", ""), ([{"type": "text", "text": "so far"}], "so far")],
)
def test_a_last_message_can_be_left_open(content: Any, end: str) -> None:
    """To be gone on with: nothing comes after what it has."""
    messages = [USER, {"role": "assistant", "content": content}]

    rendered = text(CHATML, *messages, add_generation_prompt=False, continue_final_message=True)

    assert "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n" + end == rendered


def test_parts_can_be_left_open() -> None:
    """The last text of them."""
    content = [{"type": "text", "text": "so "}, {"type": "text", "text": "far"}]
    messages = [{"role": "assistant", "content": content}]

    rendered = text(VISION, *messages, add_generation_prompt=False, continue_final_message=True)

    assert "<|im_start|>assistant\nso far" == rendered


def test_white_space_that_a_template_takes_is_taken_before_the_end_too() -> None:
    """Transformers does the same."""
    source = "{% for m in messages %}{{ m.content | trim }}|{% endfor %}"
    messages = [{"role": "assistant", "content": "so far "}]

    assert "so far" == text(source, *messages, add_generation_prompt=False, continue_final_message=True)


@pytest.mark.parametrize(
    ("reason", "source", "fields"),
    [
        ("malformed", CHATML, {"continue_final_message": True}),
        ("template", "no word of it", {"continue_final_message": True, "add_generation_prompt": False}),
        ("template", "{{ messages[0].content[:1] }}", {"continue_final_message": True, "add_generation_prompt": False}),
        ("own_template", CHATML, {"template_kwargs": {"chat_template": "x"}}),
        ("unsupported", CHATML, {"template_kwargs": {"tokenize": True}}),
        ("unsupported", CHATML, {"template_kwargs": {"messages": []}}),
        ("template", "{{ nothing.at.all }}", {}),
        ("template", "{{ 1 / 0 }}", {}),
        ("template", "{% include 'other' %}", {}),
    ],
)
def test_what_cannot_be_rendered_is_refused(reason: str, source: str, fields: dict[str, Any]) -> None:
    """With its reason."""
    with pytest.raises(Unknowable, match=reason):
        text(source, **fields)


def test_nothing_to_go_on_with_is_malformed() -> None:
    """There must be a text."""
    with pytest.raises(Unknowable, match="malformed"):
        text(VISION, {"role": "assistant", "content": []}, add_generation_prompt=False, continue_final_message=True)


def test_a_template_that_does_not_compile_is_no_template() -> None:
    """Anyone who makes one hears of it at once."""
    with pytest.raises(jinja2.TemplateError):
        template("{% for %}")


@pytest.mark.parametrize(
    ("source", "certain"),
    [(VISION, "<|im_start|>user\nsee "), (CHATML, "<|im_start|>user\n")],
)
def test_a_prompt_is_certain_up_to_its_first_image(source: str, certain: str) -> None:
    """Where a template takes parts; where it takes strings the engine puts images in front of their message."""
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    message = {"role": "user", "content": [{"type": "text", "text": "see "}, image]}

    rendered = template(source).render(AskedChat(messages=[message]))

    assert certain == rendered.text[: rendered.exact_characters]
    assert len(rendered.text) > rendered.exact_characters


def test_a_template_that_looks_for_images_makes_less_certain() -> None:
    """What it writes for them in front is part of the difference."""
    source = "{% if messages[0].content[0].type == 'image' %}no system{% else %}system{% endif %}" + VISION
    message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}

    assert 0 == template(source).render(AskedChat(messages=[message])).exact_characters


def test_the_form_of_content_can_be_said() -> None:
    """The template does not matter then."""
    flags = EngineFlags(content_format="openai")

    assert '[{"type": "text", "text": "hi"}]' in text("{{ messages | tojson }}", flags=flags)
