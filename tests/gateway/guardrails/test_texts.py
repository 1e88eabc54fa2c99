from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.guardrails.filter import Text
from gateway.guardrails.texts import texts_in, with_texts, without_tokens

CHAT: dict[str, Any] = {
    "model": "tiny",
    "user": "jane@example.org",
    "messages": [
        {"role": "system", "content": "be kind"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": "data:"}}],
        },
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": '{"a":1}'}}]},
    ],
    "invented": {"since": ["text"]},
}
VALUES: Any = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["content", "role", "x", "logprobs"]), inner),
)


def test_every_string_is_a_text_but_those_that_say_how_to_read_the_rest() -> None:
    texts = [Text("be kind"), Text("hi"), Text('{"a":1}', is_json=True), Text("text")]

    assert texts == texts_in(CHAT)


def test_texts_are_put_back_where_they_came_from() -> None:
    told = with_texts(CHAT, ["1", "2", "3", "4"])

    assert "1" == told["messages"][0]["content"]
    assert "3" == told["messages"][2]["tool_calls"][0]["function"]["arguments"]
    assert {"since": ["4"]} == told["invented"]
    assert CHAT["messages"][1]["content"][1] is told["messages"][1]["content"][1]


@settings(max_examples=40, deadline=None)
@given(VALUES)
def test_with_its_own_texts_a_value_is_the_very_same(value: Any) -> None:
    assert with_texts(value, [text.said for text in texts_in(value)]) is value


@settings(max_examples=40, deadline=None)
@given(VALUES)
def test_after_a_change_as_many_texts_are_there(value: Any) -> None:
    texts = texts_in(value)
    told = with_texts(value, [f"{text.said}!" for text in texts])

    assert [f"{text.said}!" for text in texts] == [text.said for text in texts_in(told)]


def test_tokens_come_as_null_wherever_they_are() -> None:
    answer = {
        "choices": [{"logprobs": {"content": []}, "token_ids": [1], "message": {"content": "x"}}],
        "logprobs": None,
    }

    assert {
        "choices": [{"logprobs": None, "token_ids": None, "message": {"content": "x"}}],
        "logprobs": None,
    } == without_tokens(answer)
    assert without_tokens(CHAT) is CHAT
