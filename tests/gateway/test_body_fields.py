"""What is decoded of a body, and by which types. What follows from it: test_body.py."""

import msgspec
import pytest

from gateway.body_fields import (
    ChatBody,
    Message,
    TextBody,
    decode_any_chat,
    decode_chat,
    decode_chats,
    decode_text,
)
from gateway.engine_fields import ENGINE_FIELDS


def test_only_what_decides_something_is_decoded() -> None:
    """The rest is for the engine, whatever it is."""
    raw = (
        b'{"model": "m", "messages": [{"role": "user", "content": "a", "x": 1}], "temperature": 1e999, "y": {"z": []}}'
    )

    assert ChatBody(model="m", messages=[Message("user", "a")]) == decode_any_chat(raw)
    decoded = decode_chat(raw)
    assert ("m", [Message("user", "a")], None) == (decoded.model, decoded.messages, decoded.user)


@pytest.mark.parametrize("name", ENGINE_FIELDS)
@pytest.mark.parametrize("value", [b"null", b"1", b'{"a": 1}'])
def test_a_chat_with_an_engine_field_is_left_to_the_other_decoder(name: str, value: bytes) -> None:
    raw = b'{"%b": %b, "messages": [{"role": "user"}]}' % (name.encode(), value)
    with pytest.raises(msgspec.ValidationError, match=name):
        decode_chat(raw)

    assert [Message("user")] == decode_any_chat(raw).messages


def test_a_batch_is_a_list_of_chats() -> None:
    decoded = decode_chats(b'{"messages": [[{"role": "user"}], [{"role": "system", "content": ["a"]}]]}')

    assert [[Message("user")], [Message("system", ["a"])]] == decoded.messages


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
def test_a_wrong_type_is_told_by_its_place(raw: bytes, place: str) -> None:
    """Which holds only where the types are known at run time."""
    with pytest.raises(msgspec.ValidationError, match=place):
        decode_chat(raw)


def test_free_form_fields_keep_how_numbers_were_spelt() -> None:
    """Nothing here computes with them, and 1e999 is no error."""
    decoded = decode_chat(b'{"tools": [{"x": 1e999}]}')

    assert b'[{"x":1e999}]' == msgspec.json.encode(decoded.tools)
