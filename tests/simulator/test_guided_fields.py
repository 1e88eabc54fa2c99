from typing import Any

import pytest

from simulator.errors import ApiError
from simulator.guided_fields import functions_of, guide_for_format, guide_for_tools
from simulator.guides import JSON_OBJECT, CallGuide, ChoiceGuide, Function, JsonGuide, TextGuide

USER = {"role": "user", "content": "Hello"}
CLOCK = Function("clock", None)


def test_functions_are_read_from_tools() -> None:
    tools = [{"type": "function", "function": {"name": "clock"}}, {"type": "function"}, {"type": "web_search"}, 5]

    assert [CLOCK] == functions_of(tools)
    assert [] == functions_of(None)


@pytest.mark.parametrize(
    ("choice", "last", "guide"),
    [
        (None, USER, CallGuide([CLOCK])),
        ("auto", {"role": "tool", "content": "12"}, TextGuide("The tool returned: 12")),
        ("auto", {"role": "tool", "content": None}, TextGuide("The tool returned nothing.")),
        ("auto", {"role": "assistant", "content": "a"}, None),
        ("none", USER, None),
        ("required", {"role": "tool", "content": "12"}, CallGuide([CLOCK])),
        ({"type": "function", "function": {"name": "clock"}}, USER, CallGuide([CLOCK])),
    ],
)
def test_the_choice_and_the_last_message_decide(choice: Any, last: Any, guide: Any) -> None:
    """Without messages, or without tools, nothing is decided."""
    assert guide == guide_for_tools([CLOCK], choice, [USER, last])
    assert None is guide_for_tools([CLOCK], "auto", [])
    assert None is guide_for_tools([], "auto", [USER])


def test_arguments_that_cannot_be_made_are_not_called_for() -> None:
    """Unless the call is demanded, which is refused."""
    strange = [Function("f", {"type": "string", "pattern": "^unlikely words 99$"})]

    assert None is guide_for_tools(strange, "auto", [USER])
    with pytest.raises(ApiError, match="tools: pattern"):
        guide_for_tools(strange, "required", [USER])


def test_formats() -> None:
    """The newer fields of vLLM come before the older ones, and both before OpenAI's."""
    wrapped = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"const": 1}}}

    assert JsonGuide({"const": 1}) == guide_for_format(wrapped, None, None, None)
    assert JsonGuide({"const": 2}) == guide_for_format(wrapped, {"json": {"const": 2}}, {"const": 3}, None)
    assert JsonGuide(JSON_OBJECT) == guide_for_format(wrapped, {"json_object": True}, None, None)
    assert JsonGuide(JSON_OBJECT) == guide_for_format(None, None, True, None)
    assert JsonGuide({"const": 4}) == guide_for_format(
        {"type": "json_schema", "schema": {"const": 4}}, None, None, None
    )
    assert ChoiceGuide(["a"]) == guide_for_format(wrapped, None, None, ["a"])
    assert None is guide_for_format({"type": "text"}, {"regex": "a"}, None, None)
