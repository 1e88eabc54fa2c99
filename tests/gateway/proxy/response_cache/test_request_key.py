"""Requests whose answers may be kept, and keys that change with everything that changes an answer."""

import json
import random
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gateway.proxy.response_cache.request_key import answer_key, cacheable_fields

CHAT = "/v1/chat/completions"


def a_chat(**fields: Any) -> bytes:
    return json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "x"}], **fields}).encode()


@pytest.mark.parametrize("fields", [{"temperature": 0}, {"temperature": 0.0}, {"seed": 7}, {"seed": 7, "tools": []}])
def test_repeatable_answers_are_cacheable(fields: dict[str, Any]) -> None:
    """Temperature 0 or a seed makes the answer of an engine repeatable."""
    assert cacheable_fields(CHAT, a_chat(**fields)) is not None


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 0.1},
        {"temperature": None},
        {"temperature": False},
        {"temperature": "0"},
        {"seed": None},
        {"seed": True},
        {"seed": 1.5},
        {"temperature": 0, "tools": [{"type": "function"}]},
        {"temperature": 0, "tool_choice": "auto"},
        {"temperature": 0, "functions": [{}]},
        {"temperature": 0, "kv_transfer_params": {}},
        {"temperature": 0, "messages": [{"content": [{"image_url": {"url": "https://example.com/a.png"}}]}]},
        {"temperature": 0, "long": "x" * 2**18},
    ],
)
def test_other_answers_are_never_cacheable(fields: dict[str, Any]) -> None:
    """Random answers, calls of tools, contents behind addresses and long bodies are refused."""
    assert cacheable_fields(CHAT, a_chat(**fields)) is None


@pytest.mark.parametrize("raw", [b"", b"[]", b"nonsense", b'{"temperature":0', b'{"temperature":0,"x":"\\ud800"}'])
def test_a_body_that_is_not_an_object_is_not_cacheable(raw: bytes) -> None:
    """Nothing is raised, because the worker says what is wrong."""
    assert cacheable_fields(CHAT, raw) is None


def test_embeddings_need_no_temperature() -> None:
    """They are always the same; other endpoints of workers are not cacheable."""
    raw = b'{"model":"tiny","input":"x"}'

    assert cacheable_fields("/v1/embeddings", raw) is not None
    assert cacheable_fields("/v1/rerank", raw) is not None
    assert cacheable_fields("/v1/responses", a_chat(temperature=0)) is None
    assert cacheable_fields("/v1/messages", a_chat(temperature=0)) is None


def test_the_order_of_the_outermost_fields_does_not_matter() -> None:
    """Neither do spaces between them, nor fields that no engine reads."""
    one = cacheable_fields("/v1/embeddings", b'{"input":"x","dimensions":8,"user":"ann"}')
    other = cacheable_fields("/v1/embeddings", b'{ "dimensions" : 8, "user": "bob", "input": "x" }')

    assert one is not None
    assert one == other


def test_the_order_inside_a_value_matters() -> None:
    """An engine generates the properties of a JSON schema in their order."""
    one = a_chat(temperature=0, response_format={"properties": {"a": 1, "b": 2}})
    other = a_chat(temperature=0, response_format={"properties": {"b": 2, "a": 1}})

    assert cacheable_fields(CHAT, one) != cacheable_fields(CHAT, other)


@dataclass(frozen=True)
class Asked:
    """Everything that can change an answer."""

    team: str | None
    guardrails: tuple[str, ...]
    identity: bytes
    model: str
    asked: str
    target: bytes
    streams: bool
    body: str
    """JSON of the fields of the body."""

    @property
    def key(self) -> bytes:
        fields = cacheable_fields(CHAT, self.body.encode())
        assert fields is not None
        return answer_key(
            b"s" * 32,
            team=self.team,
            guardrails=self.guardrails,
            identity=self.identity,
            model=self.model,
            asked=self.asked,
            target=self.target,
            streams=self.streams,
            fields=fields,
        )


NAMES = ("", "a", "b", "ab", "a\0b", "a:b", "1:a", "team", "stream", "ä")
"""Names that run into each other if they are joined without their lengths."""
GUARDRAILS = ((), ("a",), ("b",), ("a", "b"), ("ab",), ("a\0b",), ("b", "a"))
TEXTS = ("x", "xx", "x ", "X", "1:x", '","seed":1,"', "ä")


def some_body(rng: random.Random) -> str:
    fields: dict[str, Any] = {"temperature": 0, "messages": [{"role": "user", "content": rng.choice(TEXTS)}]}
    for name, values in (
        ("seed", (0, 1, 2**70, 2**70 + 1)),
        ("max_tokens", (1, 16)),
        ("top_p", (0.1, 0.1000001)),
        ("stop", (None, "a", ["a"])),
        ("n", (1, 2)),
        ("logprobs", (True, False)),
        ("cache_salt", NAMES),
        ("response_format", ({"a": 1, "b": 2}, {"b": 2, "a": 1})),
        ("x" + rng.choice(NAMES), NAMES),
    ):
        if rng.random() < 0.4:
            fields[name] = rng.choice(values)
    return json.dumps(fields)


def some_request(rng: random.Random) -> Asked:
    return Asked(
        team=rng.choice((None, *NAMES)),
        guardrails=rng.choice(GUARDRAILS),
        identity=rng.choice(NAMES).encode(),
        model=rng.choice(NAMES),
        asked=rng.choice(NAMES),
        target=rng.choice((b"/v1/chat/completions", b"/v1/chat/completions?api-version=1")),
        streams=rng.random() < 0.5,
        body=some_body(rng),
    )


@pytest.mark.timeout(300)
def test_no_two_different_requests_have_the_same_key() -> None:
    """100,000 pairs that differ in one thing or in all: no false hit. Equal requests have the same key."""
    rng = random.Random(25)
    pairs = false_hits = missed = 0
    while pairs < 100_000:
        one, other = some_request(rng), some_request(rng)
        changed = rng.choice(("all", *one.__dataclass_fields__))
        if changed != "all":
            other = replace(one, **{changed: getattr(other, changed)})
        if one == other:
            missed += one.key != other.key
            continue
        pairs += 1
        false_hits += one.key == other.key

    assert (0, 0) == (false_hits, missed)
