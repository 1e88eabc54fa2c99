from dataclasses import replace
from typing import Any

import pytest

from gateway.backends.bedrock.family import FAMILIES, OTHER, Family, family_of
from gateway.backends.bedrock.output_format import OutputFormat
from gateway.backends.bedrock.tool_config import ToolConfig, call_words, calls_as_text, tool_config
from gateway.backends.bedrock.tool_names import ToolNames
from gateway.backends.bedrock.tools import read_tools
from gateway.protocol.errors import InvalidField

LLAMA, MISTRAL, CLAUDE = FAMILIES["llama"], FAMILIES["mistral"], FAMILIES["claude"]
R1 = family_of("us.deepseek.r1-v1:0")
OPEN = {"type": "object", "properties": {}}
PERSON = OutputFormat("response_format", schema={"type": "object", "properties": {"name": {}}})


def spec(name: str) -> dict[str, Any]:
    return {"toolSpec": {"name": name, "inputSchema": {"json": OPEN}}}


def config(
    *tools: str,
    choice: object = None,
    history: tuple[str, ...] = (),
    family: Family = OTHER,
    stands_for: OutputFormat | None = None,
    one_at_a_time: bool = False,
) -> ToolConfig:
    functions = [{"type": "function", "function": {"name": name}} for name in tools]
    toolbox = read_tools({"tools": functions, "tool_choice": choice, "parallel_tool_calls": not one_at_a_time})
    names = ToolNames([*tools, *history])
    return tool_config(toolbox, history=history, names=names, family=family, stands_for=stands_for)


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def test_without_tools_there_is_nothing_to_say() -> None:
    assert ToolConfig() == config()
    assert config().payload() is None


def test_tools_are_offered_and_the_model_chooses() -> None:
    made = config("f", "g")

    assert {"tools": [spec("f"), spec("g")]} == made.payload()
    assert not made.forces


@pytest.mark.parametrize(
    ("choice", "said"), [("required", {"any": {}}), (named("a b"), {"tool": {"name": "a_b"}}), ("auto", None)]
)
def test_a_choice_is_said_in_converses_words(choice: object, said: object) -> None:
    made = config("a b", "f", choice=choice)

    assert said == made.choice
    assert (said is not None, frozenset()) == (made.forces, made.dropped)


def test_a_choice_that_a_family_does_not_know_is_said_in_words() -> None:
    made = config("a b", "f", choice=named("a b"), family=LLAMA)

    assert ({"tools": [spec("a_b"), spec("f")]}, frozenset({"tool_choice"})) == (made.payload(), made.dropped)
    assert "You must call the tool a_b." == made.words == call_words("a_b")
    assert "You must call one of the tools." == config("f", choice="required", family=LLAMA).words


def test_any_of_one_tool_is_that_tool() -> None:
    """Mistral can be made to call, but not to call a certain one."""
    made = config("f", "g", choice=named("g"), family=MISTRAL)

    assert {"tools": [spec("g")], "toolChoice": {"any": {}}} == made.payload()
    assert "" == made.words


def test_none_withholds_the_tools_and_reports_the_history_in_words() -> None:
    functions = [{"type": "function", "function": {"name": "f"}}]

    assert config("f", choice="none").payload() is None
    assert calls_as_text(read_tools({"tools": functions, "tool_choice": "none"}), OTHER)
    assert not calls_as_text(read_tools({"tools": functions}), OTHER)


def test_a_history_of_calls_needs_its_tools() -> None:
    """Each once, under its plain name."""
    assert {"tools": [spec("a_b"), spec("f")]} == config(history=("a b", "f", "a b")).payload()


def test_a_family_without_tools_refuses_them_and_reports_the_history_in_words() -> None:
    with pytest.raises(InvalidField, match="'tools' is not supported by this model"):
        config("f", family=R1)

    assert calls_as_text(read_tools({}), R1)
    assert ToolConfig() == config("f", choice="none", family=R1)


def test_a_tool_stands_for_the_answers_schema() -> None:
    """The model must call it, and its input is the answer."""
    made = config(stands_for=PERSON)

    assert "json_answer" == made.unwraps
    assert {"tool": {"name": "json_answer"}} == made.choice
    assert [PERSON.tool("json_answer")] == made.specs


def test_it_has_a_name_that_no_other_tool_has() -> None:
    made = config(history=("json_answer",), stands_for=PERSON)

    assert made.unwraps is not None
    assert made.unwraps.startswith("json_answer_")
    assert ["json_answer", made.unwraps] == [tool["toolSpec"]["name"] for tool in made.specs]


def test_it_is_the_only_one_where_a_certain_tool_cannot_be_forced() -> None:
    """With tools of a history beside it, any of them might be called: then the schema is said in words."""
    assert ({"any": {}}, "json_answer") == (
        config(stands_for=PERSON, family=MISTRAL).choice,
        config(stands_for=PERSON, family=MISTRAL).unwraps,
    )
    assert config(stands_for=PERSON, family=MISTRAL, history=("f",)).unwraps is None
    assert config(stands_for=PERSON, family=LLAMA).unwraps is None
    assert config(stands_for=PERSON, family=R1) == ToolConfig()


def test_no_tool_stands_for_a_schema_beside_the_callers_own() -> None:
    """The model could not call those then."""
    assert config("f", stands_for=PERSON).unwraps is None


def test_an_object_without_a_schema_has_no_tool() -> None:
    assert ToolConfig() == config(stands_for=OutputFormat("response_format"))


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (None, {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", {"type": "any", "disable_parallel_tool_use": True}),
        (named("f"), {"type": "tool", "name": "f", "disable_parallel_tool_use": True}),
    ],
)
def test_claude_can_be_held_to_one_call(choice: object, said: dict[str, Any]) -> None:
    """In its own words; the choice is then there, and not in Converse's as well."""
    made = config("f", choice=choice, family=CLAUDE, one_at_a_time=True)

    assert ({"tool_choice": said}, {"tools": [spec("f")]}) == (made.own, made.payload())
    assert (choice is not None, frozenset()) == (made.forces, made.dropped)


def test_others_cannot_be_held_to_one_call() -> None:
    assert {"parallel_tool_calls"} == config("f", one_at_a_time=True).dropped
    assert frozenset() == config(one_at_a_time=True).dropped
    assert frozenset() == config("f", choice="none", one_at_a_time=True).dropped


def test_a_strict_tool_that_cannot_be_strict_is_named() -> None:
    function = {"name": "f", "strict": True, "parameters": PERSON.schema}
    toolbox = read_tools({"tools": [{"type": "function", "function": function}]})

    def dropped(family: Family) -> frozenset[str]:
        return tool_config(toolbox, history=(), names=ToolNames(["f"]), family=family, stands_for=None).dropped

    assert {"tools.strict"} == dropped(OTHER)
    assert frozenset() == dropped(replace(OTHER, native_schema=True))
