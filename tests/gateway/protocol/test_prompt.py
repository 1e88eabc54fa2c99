import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocol.body import parse_chat, parse_completion
from gateway.protocol.endpoints.messages import parse_messages
from gateway.protocol.endpoints.responses import parse_responses
from gateway.protocol.prompt import first_words

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

    @pytest.mark.parametrize("mark", [{"cache_control": {"type": "ephemeral"}}, {"prompt_cache_breakpoint": {}}])
    def test_marks_for_caches_do_not_change_the_prompt(self, mark: dict[str, Any]) -> None:
        """Callers move them from turn to turn, also from an image."""
        image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
        text = {"type": "text", "text": "What is it?"}
        plain = {"role": "user", "content": [text, image]}
        marked = {"role": "user", "content": [{**text, **mark}, {**image, **mark}]}

        assert rendered(plain) == rendered(marked)
        assert rendered_message(plain) == rendered_message(marked)
        assert rendered_response([plain]) == rendered_response([marked])

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

    def test_parts_of_other_kinds_are_distinguished(self) -> None:
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


CALL_ITEM = {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"q": "Zürich"}'}
RESULT_ITEM = {"type": "function_call_output", "call_id": "c1", "output": "Switzerland"}
ANSWER_ITEM = {"role": "assistant", "content": [{"type": "output_text", "text": "There.", "annotations": []}]}
REASONING_ITEM = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "x"}],
}

items = st.lists(
    st.sampled_from([QUESTION, CALL_ITEM, RESULT_ITEM, ANSWER_ITEM, REASONING_ITEM, {"type": "mcp_call", "name": "f"}]),
    max_size=5,
)


def rendered_response(given: Any, **fields: Any) -> bytes:
    return parse_responses(json.dumps({"model": "m", "input": given, **fields}).encode()).prompt


class TestResponses:
    @given(items, items)
    def test_a_longer_conversation_begins_with_the_shorter(self, earlier: list[Any], later: list[Any]) -> None:
        """Appending items keeps every byte of the rendering before them."""
        assert rendered_response(earlier + later).startswith(rendered_response(earlier))

    def test_a_string_is_the_first_word_of_a_user(self) -> None:
        """Instructions stand before it, as a chat's system message does."""
        chat = rendered(SYSTEM, QUESTION)

        assert chat == rendered_response("Where is Zürich?", instructions="You are terse.")
        assert chat == rendered_response([QUESTION], instructions="You are terse.")
        assert chat == rendered_response([SYSTEM, {**QUESTION, "type": "message"}])
        assert chat == rendered_response(
            [SYSTEM, {"role": "user", "content": [{"type": "input_text", "text": "Where is Zürich?"}]}]
        )

    def test_what_a_response_gave_can_be_given_back(self) -> None:
        """Ids and states that the server put there do not show, and neither does its reasoning."""
        given_back = [{**item, "id": "x_1", "status": "completed"} for item in (CALL_ITEM, ANSWER_ITEM)]

        assert rendered_response([CALL_ITEM, ANSWER_ITEM]) == rendered_response([REASONING_ITEM, *given_back])

    @pytest.mark.parametrize(
        "changed",
        [
            {**CALL_ITEM, "name": "search"},
            {**CALL_ITEM, "arguments": "{}"},
            {**CALL_ITEM, "call_id": "c2"},
            {**RESULT_ITEM, "output": "Swabia"},
            {"type": "web_search_call", "query": "Zürich"},
        ],
    )
    def test_a_change_in_an_early_item_shows(self, changed: dict[str, Any]) -> None:
        """Calls, their results and items of any other kind are part of the prefix."""
        assert len({rendered_response([item, QUESTION]) for item in (CALL_ITEM, RESULT_ITEM, changed)}) == 3

    def test_a_long_result_counts_with_its_length(self) -> None:
        """It is text to the model, in one piece or in parts."""
        text = "Switzerland " * 100
        parts = [{"type": "input_text", "text": text}]

        assert text.encode() in rendered_response([{**RESULT_ITEM, "output": text}])
        assert rendered_response([{**RESULT_ITEM, "output": text}]) == rendered_response(
            [{**RESULT_ITEM, "output": parts}]
        )

    @pytest.mark.parametrize(
        "fields", [{"tools": TOOLS}, {"reasoning": {"effort": "high"}}, {"chat_template_kwargs": {"a": 1}}]
    )
    def test_what_templates_put_in_front_separates_prompts(self, fields: dict[str, Any]) -> None:
        """The rule is the same as for chats."""
        assert 0 == common(rendered_response("Hi"), rendered_response("Hi", **fields))

    def test_an_image_is_a_part_with_an_identity(self) -> None:
        """A data URL does not pose as a long prompt."""
        image = {"type": "input_image", "image_url": "data:" + "x" * 100_000}
        shown, other = (
            rendered_response([{"role": "user", "content": [picture, "a"]}])
            for picture in (image, {**image, "image_url": "data:" + "y" * 100_000})
        )

        assert len(shown) < 300
        assert shown != other

    @pytest.mark.parametrize(
        "odd",
        [
            {},
            {"role": 5},
            {"type": None},
            {"type": [1], "x": 1},
            {"role": "user", "content": 5},
            {"role": "user", "content": [{"type": ["text"], "text": "Hi"}]},
        ],
    )
    def test_what_is_no_item_is_for_the_engine_to_judge(self, odd: dict[str, Any]) -> None:
        """It is rendered somehow."""
        assert rendered_response([odd]).startswith(b"\xff")


EPHEMERAL = {"cache_control": {"type": "ephemeral"}}
USE = {"type": "tool_use", "id": "t1", "name": "find", "input": {"q": "Zürich"}}
USING = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, USE]}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "Switzerland"}
TURNS = [QUESTION, USING, {"role": "user", "content": [RESULT, {"type": "text", "text": "Go on."}]}]


def rendered_message(*turns: Message, **fields: Any) -> bytes:
    return parse_messages(json.dumps({"model": "m", "max_tokens": 1, "messages": turns, **fields}).encode()).prompt


class TestMessages:
    @given(st.lists(st.sampled_from(TURNS), min_size=1, max_size=4), st.lists(st.sampled_from(TURNS), max_size=4))
    def test_a_longer_conversation_begins_with_the_shorter(self, earlier: list[Message], later: list[Message]) -> None:
        """Appending turns keeps every byte of the rendering before them."""
        assert rendered_message(*earlier, *later).startswith(rendered_message(*earlier))

    def test_the_system_prompt_comes_first(self) -> None:
        """It may be a string or blocks, which vLLM joins."""
        blocks = [{"type": "text", "text": "You are "}, {"type": "text", "text": "terse."}]

        assert rendered(SYSTEM, QUESTION) == rendered_message(QUESTION, system="You are terse.")
        assert rendered(SYSTEM, QUESTION) == rendered_message(QUESTION, system=blocks)

    def test_the_billing_header_of_claude_code_does_not_show(self) -> None:
        """Its hash differs in every request, and engines leave it out."""
        billed, again = (
            [
                {"type": "text", "text": f"x-anthropic-billing-header: cch={cch};"},
                {"type": "text", "text": "You are terse."},
            ]
            for cch in ("eb6c6", "4e20a")
        )

        assert rendered_message(QUESTION, system=billed) == rendered_message(QUESTION, system=again)
        assert rendered(SYSTEM, QUESTION) == rendered_message(QUESTION, system=billed)

    def test_marks_for_a_cache_may_wander(self) -> None:
        """Claude Code moves them to the last turns; no template knows them."""
        marked = [{"role": "user", "content": [{"type": "text", "text": "Where is Zürich?", **EPHEMERAL}]}]
        results = [
            [{**RESULT, **EPHEMERAL}],
            [{**RESULT, "content": [{"type": "text", "text": "Switzerland", **EPHEMERAL}]}],
        ]
        image = {"type": "image", "source": {"type": "base64", "data": "eA=="}}

        assert rendered_message(QUESTION) == rendered_message(*marked)
        assert rendered_message(QUESTION, tools=TOOLS) == rendered_message(QUESTION, tools=[{**TOOLS[0], **EPHEMERAL}])
        for result in results:
            assert rendered_message({"role": "user", "content": [RESULT]}) == rendered_message(
                {"role": "user", "content": result}
            )
        assert rendered_message({"role": "user", "content": [image]}) == rendered_message(
            {"role": "user", "content": [{**image, **EPHEMERAL}]}
        )

    def test_thinking_of_earlier_turns_does_not_show(self) -> None:
        """Templates drop it."""
        assert rendered_message(QUESTION, USING) == rendered_message(QUESTION, {"role": "assistant", "content": [USE]})

    @pytest.mark.parametrize(
        "changed",
        [
            {"role": "assistant", "content": [{**USE, "input": {}}]},
            {"role": "assistant", "content": [{**USE, "id": "t2"}]},
            {"role": "user", "content": [RESULT]},
            {"role": "user", "content": [{**RESULT, "content": "Swabia"}]},
            {"role": "user", "content": [{"type": "document", "source": {"data": "x"}}]},
            {"role": "user", "content": "thinking"},
            {"role": "user", "content": []},
            {"role": "user", "content": ["tool_use"]},
        ],
    )
    def test_a_change_in_an_early_turn_shows(self, changed: Message) -> None:
        """Calls, their results and blocks of any other kind are part of the prefix."""
        before, after = rendered_message(QUESTION, USING, QUESTION), rendered_message(QUESTION, changed, QUESTION)

        assert before != after
        assert common(before, after) >= len(rendered_message(QUESTION))

    def test_a_long_result_counts_with_its_length(self) -> None:
        """It is text for the model, not a media part with a digest."""
        text = "Switzerland " * 100

        assert text.encode() in rendered_message({"role": "user", "content": [{**RESULT, "content": text}]})

    def test_tools_come_first(self) -> None:
        """They are the longest and the most widely shared."""
        assert 0 == common(rendered_message(QUESTION), rendered_message(QUESTION, tools=TOOLS))
        assert rendered_message(QUESTION) == rendered_message(QUESTION, tools=[])


def test_the_first_words_are_the_text_of_the_conversation() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    prompt = rendered(
        {"role": "system", "content": "You are\n  \x1b[31ma \u202ebot."},
        {"role": "user", "name": "ann", "content": [image, {"type": "text", "text": "Hello!"}]},
    )

    assert "You are [31ma bot. Hello!" == first_words(prompt, max_bytes=80)


@pytest.mark.parametrize(
    ("beginning", "words"),
    [
        ("Grüße".encode()[:3], "Gr"),
        (b"x" * 81, "x" * 80),
        ("é".encode() * 41, "é" * 40),
        (b"x" + "é".encode() * 40, "x" + "é" * 39),
        (rendered_text(["one", "two"]), "one two"),
        (rendered_text([101, 102]), ""),
        (b"bad \x80 text", ""),
        (b"", ""),
    ],
)
def test_the_first_words_are_short_and_readable(beginning: bytes, words: str) -> None:
    assert words == first_words(beginning, max_bytes=80)
