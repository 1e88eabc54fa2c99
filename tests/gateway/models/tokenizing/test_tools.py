"""Tools as vLLM writes them for a template; the expected forms came from vLLM 0.32."""

import json
from typing import Any

import pytest

from gateway.models.tokenizing.exactness import Unknowable
from gateway.models.tokenizing.tools import functions_of, tools_of

SCHEMA = {"type": "object", "properties": {"b": {"type": "string"}, "a": {}}}


@pytest.mark.parametrize(
    ("tool", "written"),
    [
        (
            {"function": {"parameters": SCHEMA, "name": "f"}, "type": "function"},
            {"type": "function", "function": {"name": "f", "description": None, "parameters": SCHEMA}},
        ),
        (
            {"type": "function", "function": {"name": "f", "description": "d", "strict": True}},
            {"type": "function", "function": {"name": "f", "description": "d", "parameters": None, "strict": True}},
        ),
        (
            {"function": {"name": "f", "strict": None, "defer_loading": None}},
            {"type": "function", "function": {"name": "f", "description": None, "parameters": None}},
        ),
        (
            {"type": "function", "function": {"name": "f"}, "defer_loading": True},
            {
                "type": "function",
                "function": {"name": "f", "description": None, "parameters": None, "defer_loading": True},
                "defer_loading": True,
            },
        ),
    ],
)
def test_a_tool_has_its_keys_in_one_order(tool: dict[str, Any], written: dict[str, Any]) -> None:
    """Null stands for what is missing, but for the two that are left out; schemas stay as they are."""
    assert json.dumps([written]) == json.dumps(tools_of([tool]))


def test_no_tools_are_not() -> None:
    """Null is as good as nothing."""
    assert tools_of(None) is None
    assert functions_of([]) is None


def test_a_function_gets_the_shell_of_a_tool() -> None:
    """For the APIs that have none round it."""
    written = {"type": "function", "function": {"name": "f", "description": None, "parameters": SCHEMA}}

    assert [written] == functions_of([{"name": "f", "parameters": SCHEMA}])


@pytest.mark.parametrize(
    "tools",
    [
        [],
        {},
        [1],
        [{"type": "function"}],
        [{"type": "function", "function": {}}],
        [{"type": "function", "function": {"name": 1}}],
        [{"type": "function", "function": {"name": "f", "description": 1}}],
        [{"type": "function", "function": {"name": "f", "parameters": []}}],
        [{"type": "function", "function": {"name": "f", "strict": "yes"}}],
    ],
)
def test_what_is_no_tool_is_malformed(tools: Any) -> None:
    """The engine will say so."""
    with pytest.raises(Unknowable, match="malformed"):
        tools_of(tools)


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "custom", "function": {"name": "f"}},
        {"type": "function", "function": {"name": "f"}, "cache_control": {}},
        {"type": "function", "function": {"name": "f", "returns": {}}},
    ],
)
def test_keys_that_versions_treat_differently_are_refused(tool: dict[str, Any]) -> None:
    """Some drop them, some write them."""
    with pytest.raises(Unknowable, match="unsupported"):
        tools_of([tool])
