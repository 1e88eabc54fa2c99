"""What is decoded of a body, and by which types. What follows from it: test_body.py."""

import msgspec
import pytest

from gateway.protocol.engine_fields import ENGINE_FIELDS
from gateway.protocol.json_fields import (
    ChatBody,
    ChatMessage,
    PromptTokensDetails,
    TextBody,
    UsageFields,
    decode_answer,
    decode_any_chat,
    decode_chat,
    decode_chats,
    decode_text,
)


def test_only_what_decides_something_is_decoded() -> None:
    """The rest is for the engine, whatever it is."""
    raw = (
        b'{"model": "m", "messages": [{"role": "user", "content": "a", "x": 1}], "temperature": 1e999, "y": {"z": []}}'
    )

    assert ChatBody(model="m", messages=[ChatMessage("user", "a")]) == decode_any_chat(raw)
    decoded = decode_chat(raw)
    assert ("m", [ChatMessage("user", "a")], None) == (decoded.model, decoded.messages, decoded.user)


@pytest.mark.parametrize("name", ENGINE_FIELDS)
@pytest.mark.parametrize("value", [b"null", b"1", b'{"a": 1}'])
def test_a_chat_with_an_engine_field_is_left_to_the_other_decoder(name: str, value: bytes) -> None:
    raw = b'{"%b": %b, "messages": [{"role": "user"}]}' % (name.encode(), value)
    with pytest.raises(msgspec.ValidationError, match=name):
        decode_chat(raw)

    assert [ChatMessage("user")] == decode_any_chat(raw).messages


def test_a_batch_is_a_list_of_chats() -> None:
    decoded = decode_chats(b'{"messages": [[{"role": "user"}], [{"role": "system", "content": ["a"]}]]}')

    assert [[ChatMessage("user")], [ChatMessage("system", ["a"])]] == decoded.messages


@pytest.mark.parametrize("prompt", ["a", ["a", "b"], [1, 2], [[1], [2, 3]]])
def test_a_prompt_is_text_or_token_ids(prompt: object) -> None:
    assert TextBody(prompt=prompt) == decode_text(msgspec.json.encode({"prompt": prompt}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (b'{"messages": [{"role": 1}]}', r"\$\.messages\[0\]\.role"),
        (b'{"messages": [{"content": "a"}]}', r"\$\.messages\[0\]"),
        (b'{"stream": "yes"}', r"\$\.stream"),
        (b'{"stream_options": {"include_usage": 1}}', r"\$\.stream_options\.include_usage"),
        (b'{"max_tokens": "16"}', r"\$\.max_tokens"),
    ],
)
def test_a_wrong_type_is_reported_with_its_place(raw: bytes, place: str) -> None:
    """This needs the types at run time."""
    with pytest.raises(msgspec.ValidationError, match=place):
        decode_chat(raw)


def test_free_form_fields_keep_how_numbers_were_spelt() -> None:
    """Nothing here computes with them, and 1e999 is no error."""
    decoded = decode_chat(b'{"tools": [{"x": 1e999}]}')

    assert b'[{"x":1e999}]' == msgspec.json.encode(decoded.tools)


def test_of_an_answer_its_usage_is_read_and_all_else_skipped() -> None:
    answer = decode_answer(
        b'{"id":"c","usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":8}}}'
    )

    assert UsageFields(9, 2, PromptTokensDetails(8)) == answer.usage


def test_an_answer_may_have_no_usage() -> None:
    assert decode_answer(b'{"id":"c"}').usage is None
    assert decode_answer(b'{"usage":null}').usage is None


def test_an_engine_may_leave_out_what_was_cached_and_what_was_generated() -> None:
    """Pooling engines generate nothing."""
    assert UsageFields(9, None, None) == decode_answer(b'{"usage":{"prompt_tokens":9}}').usage
