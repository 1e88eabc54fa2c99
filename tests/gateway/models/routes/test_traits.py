"""What a body asks a model to be able to do, in each of the APIs."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.models.routes.traits import abilities_in

IMAGE = {"type": "image_url", "image_url": {"url": "data:,x"}}
TEXT = {"type": "text", "text": "what is this?"}


def asked(**fields: Any) -> set[str]:
    return set(abilities_in(json.dumps({"model": "m", **fields}).encode()))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"messages": [{"role": "user", "content": "hello"}]}, set()),
        ({"messages": [{"role": "user", "content": [TEXT]}]}, set()),
        ({"messages": [{"role": "user", "content": [TEXT, IMAGE]}]}, {"images"}),
        ({"messages": [[{"role": "user", "content": [IMAGE]}]]}, {"images"}),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}, {"audio"}),
        ({"tools": [{"type": "function"}]}, {"tools"}),
        ({"functions": [{"name": "f"}]}, {"tools"}),
        ({"tools": []}, set()),
        ({"response_format": {"type": "json_schema"}}, {"response_format"}),
        ({"response_format": {"type": "text"}}, set()),
        ({"response_format": None}, set()),
        ({"structured_outputs": {"choice": ["a", "b"]}}, {"response_format"}),
        ({"reasoning_effort": "high"}, {"reasoning"}),
        ({"reasoning_effort": "none"}, set()),
        ({"reasoning_effort": None}, set()),
    ],
)
def test_chats(fields: dict[str, Any], expected: set[str]) -> None:
    assert expected == asked(**fields)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"input": "hello"}, set()),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, {"images"}),
        ({"input": [{"type": "function_call_output", "output": [{"type": "input_image"}]}]}, {"images"}),
        ({"input": [{"type": "input_image"}]}, {"images"}),
        ({"text": {"format": {"type": "json_schema"}}}, {"response_format"}),
        ({"text": {"format": {"type": "text"}}}, set()),
        ({"reasoning": {"effort": "low"}}, {"reasoning"}),
        ({"reasoning": {"summary": "auto"}}, set()),
    ],
)
def test_responses(fields: dict[str, Any], expected: set[str]) -> None:
    assert expected == asked(**fields)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, {"images"}),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": [{"type": "image"}]}]}]},
            {"images"},
        ),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, {"reasoning"}),
        ({"thinking": {"type": "adaptive"}}, {"reasoning"}),
        ({"thinking": {"type": "disabled"}}, set()),
        ({"output_config": {"format": {"type": "json_schema"}}}, {"response_format"}),
    ],
)
def test_messages(fields: dict[str, Any], expected: set[str]) -> None:
    assert expected == asked(**fields)


def test_several_at_once() -> None:
    fields = {"messages": [{"content": [IMAGE]}], "tools": [{}], "reasoning_effort": "low"}

    assert {"images", "tools", "reasoning"} == asked(**fields)


@given(st.binary() | st.sampled_from([b"[]", b"1", b'{"tools":1e999}', b"\xff", b"[" * 100_000]))
def test_what_is_no_json_object_asks_for_nothing_that_breaks(raw: bytes) -> None:
    """A form, for one; anyone who serves the body says what is wrong with it."""
    assert abilities_in(raw) <= {"tools"}
