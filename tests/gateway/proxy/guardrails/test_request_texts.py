"""Where in a request there are texts. What was tried to get round it: tests/security/test_guardrail_bypasses.py."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from gateway.protocol.errors import InvalidField
from gateway.proxy.guardrails.filter import Text
from gateway.proxy.guardrails.request_texts import refuse_tokens, request_texts, with_request_texts

decode = msgspec.json.Decoder(dict[str, Any], float_hook=Raw).decode
CHAT: dict[str, Any] = {
    "model": "tiny",
    "user": "jane@example.org",
    "metadata": {"account": "jane"},
    "messages": [
        {"role": "system", "content": "be kind"},
        {
            "role": "user",
            "name": "jane",
            "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": "data:"}}],
        },
        {
            "role": "assistant",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
    ],
}
VALUES: Any = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["content", "role", "x", "tools", "id"]), inner),
)
BODIES: Any = st.dictionaries(st.sampled_from(["model", "messages", "input", "tools", "x"]), VALUES)


def said(body: dict[str, Any]) -> list[str]:
    return [text.said for text in request_texts(body)]


def test_a_plain_chat_has_few_texts() -> None:
    """Roles, kinds, ids, images and the caller's own accounts are left out; arguments of a call are JSON."""
    assert ["be kind", "jane", "hi", "f", "{}"] == said(CHAT)
    assert Text("{}", is_json=True) == request_texts(CHAT)[-1]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "4111 1111 1111 1111", "content": ""},
        {"role": "tool", "tool_call_id": "4111-1111-1111-1111"},
        {"role": "tool", "tool_call_id": "not an id"},
        {"role": "user", "content": [{"type": "a text as a kind"}]},
        {"role": "user", "content": [{"type": "text", "4111 1111 1111 1111": "", "text": ""}]},
    ],
)
def test_unknown_words_and_ids_are_texts(message: dict[str, Any]) -> None:
    assert 1 == len(said({"messages": [message]}))


def test_inside_schemas_all_names_are_the_callers() -> None:
    """A property may be called as a field of the API is."""
    schema = {"type": "object", "properties": {"name": {"description": "a", "type": "string"}, "id": {"enum": ["b"]}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]

    assert {"a", "b", "f", "object", "string", "function"} == set(said({"tools": tools}))
    assert "own" in said({"chat_template_kwargs": {"user": "own"}})
    assert "own" in said({"response_format": {"type": "json_schema", "json_schema": {"schema": {"title": "own"}}}})


def test_keys_are_one_text_of_their_object() -> None:
    """They are renamed where something was found in them, and stay different from each other."""
    body = decode(b'{"messages":[{"content":"", "a":1, "b":{"c":2}}]}')

    assert ["a\nb", "c"] == said(body)
    assert {"messages": [{"content": "", "x": 1, "x_": {"c": 2}}]} == with_request_texts(body, ["x\nx", "c"])
    assert {"messages": [{"content": "", "[REDACTED]": 1, "[REDACTED]_": {"c": 2}}]} == with_request_texts(
        body, ["one line", "c"]
    )


def test_long_numbers_are_texts_where_a_template_may_render_them() -> None:
    """However they are written."""
    body = decode(b'{"chat_template_kwargs":{"default":[4111111111111111,4.111111111111111e15,3,1e999,true]}}')

    assert ["4111111111111111", "4111111111111111"] == said(body)
    assert [] == said(decode(b'{"seed":4111111111111111}'))
    changed = with_request_texts(body, ["[CARD]", "4111111111111111"])
    assert "[CARD]" == changed["chat_template_kwargs"]["default"][0]
    assert changed["chat_template_kwargs"]["default"][1] is body["chat_template_kwargs"]["default"][1]


def test_data_is_a_text_where_it_says_so() -> None:
    plain = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "my card"}}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBOR"}}

    assert ["my card"] == said({"messages": [{"role": "user", "content": [plain, image]}]})
    assert ["iVBOR"] == said({"tools": [{"data": "iVBOR"}]})


def test_items_of_a_response_have_kinds_and_ids() -> None:
    assert ["hi"] == said({"input": [{"type": "message", "id": "i", "role": "user", "content": "hi"}]})
    assert ["user"] == said({"messages": [{"content": [{"type": "tool_use", "id": "t", "input": {"id": "user"}}]}]})


@settings(max_examples=40, deadline=None)
@given(BODIES)
def test_with_its_own_texts_a_body_is_the_very_same(body: dict[str, Any]) -> None:
    changed = with_request_texts(body, said(body))

    assert all(changed[name] is value for name, value in body.items())


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": [1, 2]},
        {"prompt": [[1, 2]]},
        {"prompt": ["a", 1]},
        {"input": [[1], [2]]},
        {"anything": [1]},
        {"tokens": [1]},
        {"input_ids": "x"},
        {"prompt_embeds": "AAAA"},
        {"kv_transfer_params": {"prompt_token_ids": [1]}},
        {"nvext": {"token_data": [1]}},
        {"extra_body": {"deep": [{"input_ids": [1]}]}},
        {"messages": [{"role": "user", "content": "x", "prompt_token_ids": [1]}]},
        {"previous_response": {"output": []}},
    ],
)
def test_no_form_of_tokens_can_be_looked_at(body: dict[str, Any]) -> None:
    with pytest.raises(InvalidField, match="token ids or embeddings"):
        refuse_tokens(body)


@pytest.mark.parametrize(
    "body",
    [
        CHAT,
        {"prompt": "a"},
        {"prompt": ["a"], "stop_token_ids": [1], "prompt_embeds": None, "input_ids": []},
        {"logprobs": 5, "stop": ["a"], "bad": [True]},
        {"tools": [{"function": {"parameters": {"properties": {"tokens": {"type": "integer"}}}}}]},
        {"messages": [{"content": [{"type": "tool_use", "input": {"x": [1, 2]}}]}]},
    ],
)
def test_what_only_looks_like_tokens_passes(body: dict[str, Any]) -> None:
    refuse_tokens(body)
