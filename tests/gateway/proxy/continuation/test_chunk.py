import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocol.usage import Usage
from gateway.proxy.continuation.chunk import ChunkChoice, Delta, Head, chunk_of, payload_of, without_ids

CHAT_HEAD = Head("a", 1, "tiny", is_chat=True)
TEXT_HEAD = Head("a", 1, "tiny", is_chat=False)

WORDS = ['"', "\\", '"token_ids":[1]', '"prompt_token_ids": [1,2]', '\\"token_ids":[3]', "token_ids", "a", "\n", "é"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=6).map("".join)
VALUES = st.recursive(
    TEXTS | st.integers() | st.none() | st.lists(st.integers(0, 2**32 - 1)),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(TEXTS | st.just("token_ids"), values, max_size=3),
    max_leaves=8,
)


def _nulled(value: Any) -> Any:
    """Return *value* without lists of ids, found the slow way."""
    if isinstance(value, dict):
        ids = ("token_ids", "prompt_token_ids")
        return {key: None if key in ids and _is_ids(inner) else _nulled(inner) for key, inner in value.items()}
    return [_nulled(inner) for inner in value] if isinstance(value, list) else value


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


@given(VALUES, st.sampled_from([(",", ":"), (", ", ": ")]), st.booleans())
def test_no_text_is_taken_for_ids(value: Any, separators: tuple[str, str], is_ascii: bool) -> None:
    """Compared with a parser: only keys match, however texts and other keys quote them."""
    data = json.dumps(value, separators=separators, ensure_ascii=is_ascii).encode()

    assert _nulled(value) == json.loads(without_ids(data))


def test_ids_are_removed() -> None:
    """All other bytes stay."""
    event = b'data: {"prompt_token_ids": [1, 2], "choices":[{"token_ids":[1,2],"delta":{"content":"[1]"}}]}\n\n'
    expected = b'data: {"prompt_token_ids":null, "choices":[{"token_ids":null,"delta":{"content":"[1]"}}]}\n\n'

    assert expected == without_ids(event)


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        (b'data: {"a":1}\n\n', b'{"a":1}'),
        (b'data:{"a":1}\n\n', b'{"a":1}'),
        (b'data: {"a":1}\r\n\r\n', b'{"a":1}'),
        (b'id: 5\ndata: {"a":1}\n\n', b'{"a":1}'),
        (b'data: {"a":\ndata:1}\n\n', b'{"a":\n1}'),
        (b'data: {"a":1}', b'{"a":1}'),
        (b"data: [DONE]\n\n", b"[DONE]"),
        (b": hello\n\n", b""),
        (b"\n", b""),
    ],
)
def test_the_data_of_an_event(event: bytes, payload: bytes) -> None:
    """It is found in every form of SSE."""
    assert payload == payload_of(event)


@pytest.mark.parametrize("data", [b"x", b"[]", b'{"choices":5}', b'{"choices":[{"text":5}]}', b'{"id":"\xff"}'])
def test_other_data_is_not_a_chunk(data: bytes) -> None:
    """It has another shape, or is not JSON."""
    assert chunk_of(data) is None


@pytest.mark.parametrize(
    ("data", "fails"),
    [
        (b"{}", False),
        (b'{"error":null,"choices":[]}', False),
        (b'{"error":{}}', True),
        (b'{"error":"x"}', True),
        (b'{"object":"error"}', True),
        (b'{"choices":[{"finish_reason":"abort"}]}', True),
        (b'{"choices":[{"finish_reason":"stop"}]}', False),
    ],
)
def test_errors_of_all_engines_are_found(data: bytes, fails: bool) -> None:
    """vLLM nests its errors, SGLang's are flat, and an abort looks like an end."""
    chunk = chunk_of(data)
    assert chunk is not None

    assert fails == chunk.fails


def test_the_content_of_an_event() -> None:
    """Text of both kinds, reasoning and calls under both of their names, or nothing."""
    assert "a" == ChunkChoice(text="a").content
    assert "a" == ChunkChoice(delta=Delta(content="a"), text="b").content
    assert "" == ChunkChoice().content
    assert [True, True, False, False] == [
        ChunkChoice(delta=delta).reasons
        for delta in (Delta(reasoning="a"), Delta(reasoning_content="a"), Delta(reasoning=""), None)
    ]
    assert [True, False] == [
        ChunkChoice(delta=Delta(role="a")).only_names_role,
        ChunkChoice(delta=Delta()).only_names_role,
    ]
    assert not ChunkChoice(delta=Delta(role="a", content="b")).only_names_role
    assert [True, False, False] == [
        choice.is_bare
        for choice in (ChunkChoice(delta=Delta()), ChunkChoice(delta=Delta(content="")), ChunkChoice(text=""))
    ]


def test_a_chunk_of_completions_becomes_one_of_the_chat() -> None:
    """It gets the chat's head; its other fields stay."""
    data = (
        b'{"id":"b","object":"text_completion","created":9,"model":"x","system_fingerprint":"f","choices":[{"index":0,'
        b'"text":"a","logprobs":null,"finish_reason":"stop","stop_reason":5,"prompt_token_ids":[1],"token_ids":[2]}]}'
    )
    common = b'data: {"id":"a","object":"chat.completion.chunk","created":1,"model":"tiny","choices":[{"index":0,'
    rest = b'"delta":{"content":"b"},"logprobs":null,"finish_reason":"stop","stop_reason":5,"token_ids":%b}]}\n\n'

    assert common + rest % b"null" == CHAT_HEAD.rewritten(data, "b", None, keeps_ids=False)
    assert common + rest % b"[2]" == CHAT_HEAD.rewritten(data, "b", None, keeps_ids=True)


def test_a_chunk_of_the_same_kind_keeps_its_delta() -> None:
    """The role is removed; held text is added even to an event without content."""
    data = b'{"choices":[{"index":0,"delta":{"role":"assistant","reasoning":"r"}}]}'
    head = b'data: {"id":"a","object":"chat.completion.chunk","created":1,"model":"tiny","choices":[{"index":0,"delta":'

    assert head + b'{"reasoning":"r"}}]}\n\n' == CHAT_HEAD.rewritten(data, "", None, keeps_ids=False)
    assert head + b'{"reasoning":"r","content":"x"}}]}\n\n' == CHAT_HEAD.rewritten(data, "x", None, keeps_ids=False)


def test_a_text_chunk_stays_one() -> None:
    """It has the given text."""
    data = b'{"id":"b","choices":[{"index":0,"text":"a","token_ids":null}]}'
    expected = (
        b'data: {"id":"a","object":"text_completion","created":1,"model":"tiny",'
        b'"choices":[{"index":0,"text":"b","token_ids":null}]}\n\n'
    )

    assert expected == TEXT_HEAD.rewritten(data, "b", None, keeps_ids=False)


COUNTS = {"prompt_tokens": 3, "total_tokens": 7, "completion_tokens": 4}


@pytest.mark.parametrize(
    ("reported", "usage", "expected"),
    [
        ("{}", None, {}),
        ('{"usage":null}', Usage(3, 4), {"usage": None}),
        ('{"usage":{"prompt_tokens":2,"seen":1}}', Usage(3, 4), {"usage": COUNTS | {"seen": 1}}),
        ('{"usage":{"prompt_tokens_details":null}}', Usage(3, 4), {"usage": COUNTS | {"prompt_tokens_details": None}}),
        (
            '{"usage":{"prompt_tokens_details":{"cached_tokens":6,"multimodal_tokens":1}}}',
            Usage(3, 4, 2),
            {"usage": COUNTS | {"prompt_tokens_details": {"cached_tokens": 2, "multimodal_tokens": 1}}},
        ),
    ],
)
def test_usage_is_corrected(reported: str, usage: Usage | None, expected: Any) -> None:
    """Only the counts change, and only in events that have usage."""
    head = {"id": "a", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": []}
    event = CHAT_HEAD.rewritten(reported.encode(), "", usage, keeps_ids=False)

    assert head | expected == json.loads(payload_of(event))
    assert b'"usage":{"b":2}' in CHAT_HEAD.rewritten(b'{"usage":{"b":2}}', "", None, keeps_ids=False)


def test_the_event_that_ends_an_answer() -> None:
    """It has the form of either kind."""
    ends = b'"logprobs":null,"finish_reason":"length"}]}\n\n'

    assert CHAT_HEAD.finish("length").endswith(b'"choices":[{"index":0,"delta":{},' + ends)
    assert TEXT_HEAD.finish("length").endswith(b'"choices":[{"index":0,"text":"",' + ends)
