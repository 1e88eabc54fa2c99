from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.proxy.guardrails.filter import Text
from gateway.proxy.guardrails.texts import texts_in, with_texts, without_tokens

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


def test_the_input_of_a_tool_has_keys_of_its_own() -> None:
    """In the Messages API it is an object; that of the Responses API is a list of items, which have kinds and ids."""
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {"user": "jane", "to": {"id": "7", "url": "u"}}}

    assert ["jane", "7", "u"] == [text.said for text in texts_in({"content": [call]})]
    assert ["hi"] == [text.said for text in texts_in({"input": [{"type": "message", "id": "i", "content": "hi"}]})]


def test_a_long_number_given_to_a_tool_is_a_text() -> None:
    """In the arguments of a chat's call it stands in a string anyway."""
    call = {"input": {"card": 4111111111111111, "count": 3, "is": True}, "created": 4111111111111111}

    assert ["4111111111111111"] == [text.said for text in texts_in(call)]
    assert with_texts(call, ["4111111111111111"]) is call
    assert {"card": "[CARD]", "count": 3, "is": True} == with_texts(call, ["[CARD]"])["input"]


def test_data_is_a_text_where_it_says_so() -> None:
    plain = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "my card"}}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBOR"}}

    assert ["my card"] == [text.said for text in texts_in([plain, image])]
    assert ["x"] == [text.said for text in texts_in({"data": [{"text": "x"}]})]


def test_how_an_image_is_looked_at_is_no_text() -> None:
    assert ["not found"] == [text.said for text in texts_in([{"detail": "high"}, {"detail": "not found"}])]


def test_texts_are_put_back_where_they_came_from() -> None:
    changed = with_texts(CHAT, ["1", "2", "3", "4"])

    assert "1" == changed["messages"][0]["content"]
    assert "3" == changed["messages"][2]["tool_calls"][0]["function"]["arguments"]
    assert {"since": ["4"]} == changed["invented"]
    assert CHAT["messages"][1]["content"][1] is changed["messages"][1]["content"][1]


@settings(max_examples=40, deadline=None)
@given(VALUES)
def test_with_its_own_texts_a_value_is_the_very_same(value: Any) -> None:
    assert with_texts(value, [text.said for text in texts_in(value)]) is value


@settings(max_examples=40, deadline=None)
@given(VALUES)
def test_after_a_change_as_many_texts_are_there(value: Any) -> None:
    texts = texts_in(value)
    changed = with_texts(value, [f"{text.said}!" for text in texts])

    assert [f"{text.said}!" for text in texts] == [text.said for text in texts_in(changed)]


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
