"""Messages as templates get them; the expected forms are those of vLLM 0.32."""

import json
from typing import Any

import pytest

from gateway.models.tokenizing.conversation import TemplateForm, conversation_of
from gateway.models.tokenizing.exactness import Unknowable

STRING = TemplateForm(content="string", knows_developer=True)
PARTS = TemplateForm(content="openai", knows_developer=True)
NO_DEVELOPER = TemplateForm(content="string", knows_developer=False)
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def read(*messages: dict[str, Any], form: TemplateForm = STRING) -> list[dict[str, Any]]:
    return [*conversation_of(messages, form).messages]


def text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    "content", ["hi", [text("hi")], ["hi"], [text("hi"), text("")], [text("hi"), {**text("x"), "text": None}]]
)
def test_content_is_one_string(content: Any) -> None:
    """However it was sent; empty texts are dropped."""
    assert [{"role": "user", "content": "hi"}] == read({"role": "user", "content": content})


def test_several_texts_are_lines() -> None:
    """Their kinds do not matter."""
    content = [
        text("a"),
        {"type": "input_text", "text": "b"},
        {"type": "output_text", "text": "c"},
        {"type": "refusal", "refusal": "d"},
        {"type": "thinking", "thinking": "e"},
    ]

    assert [{"role": "user", "content": "a\nb\nc\nd\ne"}] == read({"role": "user", "content": content})


def test_no_content_is_empty() -> None:
    """A template need not ask whether there is any."""
    assert [{"role": "assistant", "content": ""}] == read({"role": "assistant", "content": None})
    assert [{"role": "assistant", "content": []}] == read({"role": "assistant"}, form=PARTS)


def test_a_template_that_wants_parts_gets_parts() -> None:
    """With fields that vLLM does not know, and without those that it does."""
    part = {**text("a"), "cache_control": {"type": "ephemeral"}, "prompt_cache_breakpoint": 1}

    assert [
        {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]},
        {"role": "user", "content": [text("b")]},
    ] == read({"role": "user", "content": [part]}, {"role": "user", "content": "b"}, form=PARTS)


def test_what_a_tool_says_is_always_a_string() -> None:
    """Few templates would take it otherwise."""
    message = {"role": "tool", "tool_call_id": "1", "content": [text("a"), text("b")]}

    assert [{"role": "tool", "content": "a\nb", "tool_call_id": "1"}] == read(message, form=PARTS)


def test_fields_that_no_template_can_know_are_left_out() -> None:
    """The others come in one order."""
    message = {"zzz": 1, "name": "bob", "content": "hi", "role": "user", "tool_call_id": "1", "task": "t"}

    assert '[{"role": "user", "content": "hi", "name": "bob", "task": "t"}]' == json.dumps(read(message))


def test_arguments_of_calls_are_objects() -> None:
    """In the place where the text was."""
    call = {"id": "1", "function": {"arguments": '{"b": 1.50, "a": null}', "name": "f"}, "type": "function", "index": 0}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    parsed = {**call, "function": {"arguments": {"b": 1.5, "a": None}, "name": "f"}}

    assert json.dumps([{"role": "assistant", "content": "", "tool_calls": [parsed]}]) == json.dumps(read(message))
    assert '{"b": 1.50, "a": null}' == call["function"]["arguments"]  # type: ignore[index]


@pytest.mark.parametrize("written", ["", "no json", "[1]", "42", '{"a": 1', "[" * 100_000])
def test_arguments_that_are_no_object_are_an_empty_one(written: str) -> None:
    """A conversation must go on in spite of its history."""
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": written}}
    message = {"role": "assistant", "tool_calls": [call]}

    assert {} == read(message)[0]["tool_calls"][0]["function"]["arguments"]


def test_no_calls_are_left_out() -> None:
    """An empty list would send templates the wrong way."""
    assert [{"role": "assistant", "content": "a"}] == read({"role": "assistant", "content": "a", "tool_calls": []})


def test_calls_belong_to_the_assistant() -> None:
    """Others have none."""
    assert [{"role": "user", "content": "a"}] == read({"role": "user", "content": "a", "tool_calls": [1]})


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_has_both_of_its_names(field: str) -> None:
    """Templates know either."""
    message = {"role": "assistant", "content": "a", field: "r"}

    assert [{"role": "assistant", "content": "a", "reasoning": "r", "reasoning_content": "r"}] == read(message)


def test_the_billing_header_is_taken_out_of_system_prompts() -> None:
    """The line alone; and only there."""
    header = "x-anthropic-billing-header: cch=1"

    assert ["rest", "rest", "", header] == [
        message["content"]
        for message in read(
            {"role": "system", "content": f"{header}\nrest"},
            {"role": "system", "content": [text(f"{header}\nrest")]},
            {"role": "system", "content": [header]},
            {"role": "user", "content": header},
        )
    ]


def test_developers_are_systems_where_they_are_unknown() -> None:
    """All of them in one message in front."""
    messages = [
        {"role": "developer", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "system", "content": "c"},
        {"role": "system", "content": ""},
    ]
    known = {"role": "developer", "content": "a", "tools": None}

    assert [{"role": "system", "content": "a\n\nc"}, messages[1]] == read(*messages, form=NO_DEVELOPER)
    assert [known, *messages[1:]] == read(*messages)


def test_the_parts_of_systems_are_lines_when_they_are_put_together() -> None:
    """One message in front stays as it is."""
    form = TemplateForm(content="openai", knows_developer=False)
    first = {"role": "developer", "content": [text("a"), text("b")]}
    user = {"role": "user", "content": [text("c")]}

    assert [{"role": "system", "content": [text("a"), text("b")]}, user] == read(first, user, form=form)
    assert [{"role": "system", "content": "a\nb\n\na\nb"}, user] == read(first, user, first, form=form)


def test_systems_stay_where_they_are_without_a_developer() -> None:
    """They are merged for no other reason."""
    messages = [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]

    assert messages == read(*messages, form=NO_DEVELOPER)


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        (IMAGE, "image"),
        ({"type": "input_image", "image_url": "https://x"}, "image"),
        ({"type": "input_audio", "input_audio": {}}, "audio"),
        ({"video_url": {"url": "https://x"}}, "video"),
        ({"type": "image_url", "uuid": "1", "image_url": None}, "image"),
    ],
)
def test_media_are_parts_without_what_they_show(part: dict[str, Any], kind: str) -> None:
    """It is known that they are there."""
    conversation = conversation_of([{"role": "user", "content": [text("a"), part]}], PARTS)

    assert [{"role": "user", "content": [text("a"), {"type": kind}]}] == conversation.messages
    assert conversation.has_media


def test_media_stand_in_front_of_strings() -> None:
    """Where the engine puts its placeholders."""
    messages = [{"role": "user", "content": [text("a"), IMAGE]}]

    assert [{"role": "user", "content": "\na"}] == conversation_of(messages, STRING).messages
    assert [{"role": "user", "content": "MARK\na"}] == conversation_of(messages, STRING, media_mark="MARK").messages


def test_a_mark_stands_for_media() -> None:
    """The mark is text in their place."""
    messages = [{"role": "user", "content": [text("a"), IMAGE]}]

    marked = conversation_of(messages, PARTS, media_mark="MARK")

    assert [{"role": "user", "content": [text("a"), text("MARK")]}] == marked.messages


@pytest.mark.parametrize(
    "message",
    [
        {"content": "a"},
        {"role": 1, "content": "a"},
        {"role": "user", "content": 1},
        {"role": "user", "content": [1]},
        {"role": "user", "content": [{"type": "text", "text": 1}]},
        {"role": "assistant", "tool_calls": "f"},
        {"role": "assistant", "tool_calls": [1]},
        {"role": "assistant", "tool_calls": [{"id": "1", "type": "custom", "custom": {}}]},
        {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f"}}]},
        {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": ""}}]},
        {"role": "assistant", "content": "a", "reasoning": 1},
    ],
)
def test_what_no_engine_takes_is_malformed(message: dict[str, Any]) -> None:
    """It is not guessed at."""
    with pytest.raises(Unknowable, match="malformed"):
        read(message)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": [{"type": "tool_reference", "name": "f"}]},
        {"role": "user", "content": [{"type": 1}]},
        {"role": "user", "content": [{"text": "no type"}]},
        {"role": "user", "content": [{"type": "prompt_embeds", "data": "AAAA"}]},
        {"role": "developer", "content": "a", "tools": [{}]},
    ],
)
def test_what_is_not_known_here_is_refused(message: dict[str, Any]) -> None:
    """An engine may know it."""
    with pytest.raises(Unknowable, match="unsupported"):
        read(message)
