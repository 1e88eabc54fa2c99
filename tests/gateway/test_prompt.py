import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.body import parse_chat, parse_completion

Message = dict[str, Any]

SYSTEM = {"role": "system", "content": "You are terse."}
QUESTION = {"role": "user", "content": "Where is Zürich?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q": "Zürich"}'}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
FOUND = {"role": "tool", "tool_call_id": "c1", "content": "Switzerland"}
TOOLS = [{"type": "function", "function": {"name": "find", "parameters": {"type": "object", "x": 1.50}}}]


def rendered(*messages: Message, **fields: Any) -> bytes:
    return parse_chat(json.dumps({"model": "m", "messages": messages, **fields}).encode()).prompt


def rendered_text(prompt: Any) -> bytes:
    return parse_completion(json.dumps({"model": "m", "prompt": prompt}).encode()).prompt


def common(one: bytes, other: bytes) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


messages = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "user", "assistant"]),
            "content": st.none()
            | st.text()
            | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text()})),
        },
        optional={"name": st.text(), "tool_call_id": st.text(), "tool_calls": st.lists(st.just(CALL))},
    ),
    min_size=1,
    max_size=4,
)


class TestConversations:
    @given(messages, messages)
    def test_a_longer_conversation_begins_with_the_shorter(self, earlier: list[Message], later: list[Message]) -> None:
        """Appending messages keeps every byte of the rendering before them."""
        assert rendered(*earlier, *later).startswith(rendered(*earlier))

    @given(messages)
    def test_the_spelling_of_the_json_does_not_show(self, conversation: list[Message]) -> None:
        """Escapes and white space are the client's affair."""
        body = {"model": "m", "messages": conversation, "tools": TOOLS}
        plain = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        spread = json.dumps(body, ensure_ascii=True, indent=3).encode()

        assert parse_chat(plain).prompt == parse_chat(spread).prompt

    def test_texts_stand_in_order_under_their_roles(self) -> None:
        """What is rendered is readable but for the marks, which no text can contain."""
        assert b"\xffsystem\xfdYou are terse.\xffuser\xfdWhere is Z\xc3\xbcrich?" == rendered(SYSTEM, QUESTION)

    @pytest.mark.parametrize(
        "changed",
        [
            {"role": "developer", "content": "You are terse."},
            {"role": "system", "content": "You are terse!"},
            {"role": "system", "content": "You are terse.", "name": "boss"},
            {"role": "system", "content": None},
            {"role": "system", "content": "You are terse.", "tool_call_id": "c1"},
            {"role": "system", "content": "You are terse.", "tool_calls": [CALL]},
            {"role": "system", "content": "You are terse.", "function_call": {"name": "f", "arguments": ""}},
        ],
    )
    def test_a_change_in_an_early_message_ends_the_common_prefix_there(self, changed: Message) -> None:
        """Whatever a template reads of a message decides all that follows."""
        before, after = rendered(SYSTEM, QUESTION), rendered(changed, QUESTION)

        assert common(before, after) <= len(rendered(SYSTEM)) + 1
        assert before != after

    def test_text_cannot_pose_as_structure(self) -> None:
        """A user who writes another role's text in a message renders unlike two messages."""
        assert rendered({"role": "user", "content": "a\u00ffuser\u00fdb"}) != rendered(
            {"role": "user", "content": "a"}, {"role": "user", "content": "b"}
        )

    def test_one_text_part_is_the_same_as_a_string(self) -> None:
        """SDKs differ in this; templates render both alike."""
        part = {"type": "text", "text": "You are terse.", "cache_control": {"type": "ephemeral"}}

        assert rendered(SYSTEM) == rendered({"role": "system", "content": [part]})
        assert rendered(SYSTEM) == rendered({"role": "system", "content": ["You are terse."]})

    def test_a_tool_conversation_grows_by_its_end(self) -> None:
        """Calls and their results are part of the prefix."""
        assert rendered(SYSTEM, CALLING, FOUND, QUESTION).startswith(rendered(SYSTEM, CALLING))
        assert b"Switzerland" in rendered(SYSTEM, CALLING, FOUND)
        assert b"find" in rendered(SYSTEM, CALLING, FOUND)


class TestHead:
    def test_tools_come_first_as_compact_json(self) -> None:
        """Templates put tools in front of the first message; numbers keep their spelling."""
        raw = b'{"model":"m","messages":[{"role":"user"}],"tools":[ {"x" : 1.50, "y":1e999} ]}'

        assert b'\xf8{"tools":[{"x":1.50,"y":1e999}]}\xffuser' == parse_chat(raw).prompt

    @pytest.mark.parametrize(
        "fields",
        [
            {"tools": TOOLS},
            {"functions": TOOLS},
            {"documents": [{"text": "a"}]},
            {"chat_template": "{{ messages }}"},
            {"chat_template_kwargs": {"enable_thinking": False}},
            {"reasoning_effort": "high"},
        ],
    )
    def test_what_templates_put_in_front_separates_prompts(self, fields: dict[str, Any]) -> None:
        """Two requests that differ there share nothing, however equal their messages are."""
        assert 0 == common(rendered(SYSTEM), rendered(SYSTEM, **fields))

    def test_no_tools_are_the_same_as_an_empty_list(self) -> None:
        """None, an empty list and an absent key render alike."""
        assert rendered(SYSTEM) == rendered(SYSTEM, tools=[]) == rendered(SYSTEM, tools=None)


class TestMedia:
    def image(self, url: str) -> bytes:
        picture = {"type": "image_url", "image_url": {"url": url}}
        return rendered({"role": "user", "content": [{"type": "text", "text": "What is this?"}, picture]}, QUESTION)

    @pytest.mark.parametrize("length", [10, 256, 257, 100_000])
    def test_another_image_is_another_prefix(self, length: int) -> None:
        """Two images differ from their place on, the same image does not, however long the data."""
        one, same, other = self.image("A" * length), self.image("A" * length), self.image("A" * (length - 1) + "B")

        assert one == same
        assert len(b"\xffuser\xfdWhat is this?") <= common(one, other) < len(one) - len(rendered(QUESTION))

    def test_a_large_image_is_not_a_long_prompt(self) -> None:
        """A data URL counts by its digest, as its length says nothing about tokens."""
        assert len(self.image("data:image/png;base64," + "A" * 100_000)) < 300

    def test_parts_of_other_kinds_are_told_apart(self) -> None:
        """Audio, files and what is yet to come are known by their JSON."""
        parts: list[dict[str, Any]] = [
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            {"type": "input_audio", "input_audio": {"data": "AAAB", "format": "wav"}},
            {"type": "file", "file": {"file_id": "f1"}},
            {"type": "refusal", "refusal": "no"},
            {"type": "text", "text": None},
        ]

        assert len(parts) == len({rendered({"role": "user", "content": [part]}) for part in parts})


class TestTextCompletions:
    def test_a_string_is_its_utf_8(self) -> None:
        """Nothing is put around a single prompt."""
        assert b"Z\xc3\xbcrich" == rendered_text("Zürich")
        assert b"Z\xc3\xbcrich" == rendered_text(["Zürich"])

    def test_several_strings_follow_one_another(self) -> None:
        """The first decides the match, all count; where one ends cannot be mistaken."""
        assert b"a\xf9b" == rendered_text(["a", "b"])
        assert rendered_text(["ab", "c"]) != rendered_text(["a", "bc"])

    def test_token_ids_are_packed_in_four_bytes(self) -> None:
        """Little-endian, so that blocks of tokens are blocks of bytes."""
        assert struct.pack("<3I", 1, 70_000, 2**32 - 1) == rendered_text([1, 70_000, 2**32 - 1])
        assert struct.pack("<4I", 1, 2, 2**32 - 1, 3) == rendered_text([[1, 2], [3]])
