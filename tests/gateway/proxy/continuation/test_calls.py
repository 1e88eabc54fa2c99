import json
from typing import Any

import msgspec

from gateway.backends.backend import Call
from gateway.protocol.splice import members_of
from gateway.proxy.continuation.calls import by_text, by_tokens, with_ids
from tests.gateway.proxy.continuation.engine import TEXT_PATH, a_call

Json = dict[str, Any]


def fields_of(call: Call) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(call.body, type=dict[str, msgspec.Raw])


def tokens(call: Call, *, most: int | None = 5, least: int = 0) -> tuple[bytes, Json]:
    following = by_tokens(call, fields_of(call), [1, 2], most=most, least=least)
    return following.path, json.loads(following.body)


def text(call: Call, *, most: int | None = 5, least: int = 0) -> Json | None:
    following = by_text(call, fields_of(call), "so far", most=most, least=least)
    return None if following is None else json.loads(following.body)


def test_the_call_asks_for_ids() -> None:
    """A value of the caller is replaced."""
    call = a_call(return_token_ids=False, seed=5)

    assert json.loads(call.body) | {"return_token_ids": True} == json.loads(with_ids(call).body)
    assert call.headers == with_ids(call).headers
    assert with_ids(call) == with_ids(call, members_of(call.body))


def test_a_query_stays_with_its_path() -> None:
    """It may be a key of the engine's own front."""
    call = a_call().changed(path=b"/v1/chat/completions?a=/v1/chat/completions")

    assert b"/v1/completions?a=/v1/chat/completions" == tokens(call)[0]


def test_a_prompt_of_ids() -> None:
    """It has the remaining limit; the fields that made the prompt are left out."""
    call = a_call(max_completion_tokens=9, chat_template="x", reasoning_effort="low", top_k=3)
    expected = {
        "model": "tiny",
        "stream": True,
        "top_k": 3,
        "return_token_ids": True,
        "prompt": [1, 2],
        "max_tokens": 5,
    }

    assert (b"/v1/completions", expected) == tokens(call)


def test_a_chat_of_ids() -> None:
    """It has no limit; fields that affect parsing are passed on."""
    call = a_call(max_tokens=..., chat_template="x", reasoning_effort="low", min_tokens=3)
    expected = {
        "model": "tiny",
        "stream": True,
        "reasoning_effort": "low",
        "return_token_ids": True,
        "min_tokens": 1,
        "messages": [{"role": "user", "content": "."}],
        "kv_transfer_params": {"prompt_token_ids": [1, 2]},
    }

    assert (b"/v1/chat/completions", expected) == tokens(call, most=None, least=1)


def test_text_comes_after_a_prompt() -> None:
    """The prompt is a string, or a list of one; ids have no text."""
    prompts = [text(a_call(TEXT_PATH, prompt=prompt)) for prompt in ("Once ", ["Once "])]

    assert ["Once so far", "Once so far"] == [asked["prompt"] for asked in prompts if asked]
    assert text(a_call(TEXT_PATH, prompt=[1, 2])) is None
    assert text(a_call(TEXT_PATH, prompt=[[1, 2]])) is None


def test_text_comes_after_messages() -> None:
    """It is one more message, or comes after the last one if the caller had that one continued."""
    messages = [{"role": "user", "content": "Tell"}, {"role": "assistant", "content": "It is ", "name": "x"}]
    added = text(a_call(messages=messages))
    joined = text(a_call(messages=messages, continue_final_message=True, add_generation_prompt=False))
    assert added is not None
    assert joined is not None

    assert [*messages, {"role": "assistant", "content": "so far"}] == added["messages"]
    assert [messages[0], {**messages[1], "content": "It is so far"}] == joined["messages"]
    for asked in (added, joined):
        assert (True, False) == (asked["continue_final_message"], asked["add_generation_prompt"])


def test_a_message_in_parts_cannot_be_continued() -> None:
    """Only the template knows which part is open."""
    messages = [{"role": "assistant", "content": [{"type": "text", "text": "It is"}]}]

    assert text(a_call(messages=messages, continue_final_message=True)) is None


def test_limits_are_lowered_where_they_stand() -> None:
    """Under either name. A missing limit stays missing, unless there is a default."""
    limits = ("max_tokens", "max_completion_tokens", "min_tokens")
    asked = [
        text(a_call(max_tokens=..., max_completion_tokens=9)),
        text(a_call(max_tokens=9, min_tokens=7), least=3),
        text(a_call(max_tokens=9, max_completion_tokens=9)),
        text(a_call(max_tokens=...), most=None),
        text(a_call(TEXT_PATH, max_tokens=...)),
    ]
    expected = [
        {"max_completion_tokens": 5},
        {"max_tokens": 5, "min_tokens": 3},
        {"max_tokens": 5, "max_completion_tokens": 5},
        {},
        {"max_tokens": 5},
    ]

    assert expected == [{name: body[name] for name in limits if name in body} for body in asked if body]
