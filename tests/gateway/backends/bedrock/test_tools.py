from typing import Any

import pytest

from gateway.backends.bedrock.family import FAMILIES, family_of
from gateway.backends.bedrock.tool_names import ToolNames
from gateway.backends.bedrock.tools import Tool, ToolChoice, read_tools, stub, unstrict
from gateway.protocol.errors import InvalidField

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
G = {"name": "g"}
OPEN: dict[str, Any] = {"type": "object", "properties": {}}
WEATHER = {"name": "get weather", "description": "Of a city.", "parameters": SCHEMA}
NATIVE, NOVA = family_of("zai.glm-5"), FAMILIES["nova"]


def function(**fields: object) -> dict[str, Any]:
    return {"type": "function", "function": fields}


def test_tools_are_read() -> None:
    toolbox = read_tools({"tools": [{"type": "function", "function": WEATHER}, function(name="add", strict=True)]})

    assert (
        Tool("get weather", "Of a city.", SCHEMA, strict=False),
        Tool("add", "", OPEN, strict=True),
    ) == toolbox.tools
    assert ["get weather", "add"] == toolbox.names
    assert ToolChoice("auto") == toolbox.choice
    assert not toolbox.one_at_a_time


def test_the_older_form_is_read() -> None:
    """Its choice has the same three meanings."""
    toolbox = read_tools({"functions": [WEATHER], "function_call": {"name": "get weather"}})

    assert (Tool("get weather", "Of a city.", SCHEMA, strict=False),) == toolbox.tools
    assert ToolChoice("named", "get weather") == toolbox.choice
    assert ToolChoice("none") == read_tools({"functions": [WEATHER], "function_call": "none"}).choice


def test_a_name_that_comes_twice_counts_once() -> None:
    """Bedrock refuses the second; the later one stands."""
    toolbox = read_tools({"tools": [function(name="f", description="a"), function(name="f", description="b")]})

    assert (Tool("f", "b", OPEN, strict=False),) == toolbox.tools


@pytest.mark.parametrize(
    ("asked", "choice"),
    [
        (None, ToolChoice("auto")),
        ("auto", ToolChoice("auto")),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ({"type": "function", "function": {"name": "g"}}, ToolChoice("named", "g")),
    ],
)
def test_the_choice_is_read(asked: object, choice: ToolChoice) -> None:
    assert choice == read_tools({"tools": [function(name="f"), function(name="g")], "tool_choice": asked}).choice


def test_allowed_tools_are_the_only_ones() -> None:
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "g"}}]}
    toolbox = read_tools(
        {
            "tools": [function(name="f"), function(name="g")],
            "tool_choice": {"type": "allowed_tools", "allowed_tools": allowed},
        }
    )

    assert (["g"], ToolChoice("required")) == (toolbox.names, toolbox.choice)


@pytest.mark.parametrize("asked", [None, True])
def test_several_calls_at_once_are_the_ordinary_case(asked: object) -> None:
    assert not read_tools({"parallel_tool_calls": asked}).one_at_a_time
    assert read_tools({"parallel_tool_calls": False}).one_at_a_time


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": "x"}, "tools"),
        ({"functions": {"name": "f"}}, "functions"),
        ({"tools": ["x"]}, "tools[0]"),
        ({"tools": [{"function": {"name": "f"}}]}, "tools[0]"),
        ({"tools": [function(name="f"), {"type": "custom", "custom": {"name": "g"}}]}, "tools[1]"),
        ({"tools": [function()]}, "tools[0].function.name"),
        ({"tools": [function(name="")]}, "tools[0].function.name"),
        ({"functions": [{"name": 7}]}, "functions[0].name"),
        ({"tools": [function(name="f", parameters="x")]}, "tools[0].function.parameters"),
        ({"tools": [function(name="f", parameters={"type": "array"})]}, "tools[0].function.parameters.type"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice"),
        ({"tools": [function(name="f")], "tool_choice": {"type": "function", "function": G}}, "tool_choice"),
        ({"tools": [function(name="f")], "tool_choice": "any"}, "tool_choice"),
        ({"functions": [{"name": "f"}], "function_call": {"name": "g"}}, "function_call"),
        (
            {
                "tools": [function(name="f")],
                "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": ["f"]}},
            },
            "tool_choice",
        ),
    ],
)
def test_what_is_no_function_is_refused_with_its_place(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidField) as caught:
        read_tools(fields)

    assert param == caught.value.param


def test_a_spec_has_a_plain_name_and_no_blank_description() -> None:
    names = ToolNames(["get weather", "f"])

    assert {"toolSpec": {"name": "get_weather", "description": "Of a city.", "inputSchema": {"json": SCHEMA}}} == Tool(
        "get weather", "Of a city.", SCHEMA, strict=False
    ).spec(names, NOVA)
    assert {"toolSpec": {"name": "f", "inputSchema": {"json": OPEN}}} == Tool("f", " ", OPEN, strict=False).spec(
        names, NOVA
    )


def test_a_strict_tool_is_strict_where_the_model_has_grammars() -> None:
    """Its schema is then closed; elsewhere, and where it cannot be closed, it is an ordinary tool."""
    names = ToolNames(["f"])
    strict, loose = Tool("f", "", SCHEMA, strict=True), Tool("f", "", OPEN, strict=True)
    closed = SCHEMA | {"additionalProperties": False}

    assert {"toolSpec": {"name": "f", "inputSchema": {"json": closed}, "strict": True}} == strict.spec(names, NATIVE)
    assert {"toolSpec": {"name": "f", "inputSchema": {"json": SCHEMA}}} == strict.spec(names, NOVA)
    assert {"toolSpec": {"name": "f", "inputSchema": {"json": OPEN}}} == loose.spec(names, NATIVE)
    assert [False, True, True] == [
        unstrict([strict], NATIVE),
        unstrict([strict], NOVA),
        unstrict([strict, loose], NATIVE),
    ]


def test_a_stub_stands_for_a_tool_of_the_history() -> None:
    assert {"toolSpec": {"name": "get_weather", "inputSchema": {"json": OPEN}}} == stub(
        "get weather", ToolNames(["get weather"])
    )
