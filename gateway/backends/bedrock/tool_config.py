"""Tools as Converse gets them: those that are offered, those of the history, and the one that stands for a schema.

Converse wants a ``toolConfig`` whenever there are tools in the history, and has no word for "none": a request that may
not call any has its history as text (`calls_as_text`), and no tools.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.backends.bedrock.family import Family
from gateway.backends.bedrock.output_format import ANSWER_TOOL, OutputFormat
from gateway.backends.bedrock.tool_names import ToolNames
from gateway.backends.bedrock.tools import Toolbox, stub, unstrict
from gateway.protocol.errors import InvalidField


@dataclass(frozen=True, slots=True)
class ToolConfig:
    """The part of a request that is about tools."""

    specs: list[dict[str, Any]] = field(default_factory=list)
    choice: dict[str, Any] | None = None
    """None: as the model likes."""
    own: dict[str, Any] = field(default_factory=dict)
    """Fields of the model's own. Claude's choice is there instead if it carries more than Converse can say."""
    words: str = ""
    """Text for the system prompt, for what no field can say."""
    unwraps: str | None = None
    """The tool that stands for the schema."""
    dropped: frozenset[str] = frozenset()

    @property
    def forces(self) -> bool:
        """The model must call a tool."""
        return bool(self.choice) or self.own.get("tool_choice", {}).get("type") in ("any", "tool")

    def payload(self) -> dict[str, Any] | None:
        if not self.specs:
            return None
        return {"tools": self.specs} | ({"toolChoice": self.choice} if self.choice else {})


def calls_as_text(toolbox: Toolbox, family: Family) -> bool:
    """Calls and results of the history must be text."""
    return toolbox.choice.mode == "none" or not family.takes_tools


def tool_config(
    toolbox: Toolbox, *, history: Sequence[str], names: ToolNames, family: Family, stands_for: OutputFormat | None
) -> ToolConfig:
    """*history* names the tools of the conversation's calls, as far as they are calls there. *stands_for* is what the
    answer has to be, if no grammar sees to it.

    Raises:
        InvalidField: the family takes no tools.
    """
    if toolbox.choice.mode == "none" or not toolbox.tools:
        return _without_tools(history, names, family, stands_for)
    if not family.takes_tools:
        raise InvalidField("'tools' cannot be served by this model of the Bedrock fallback", param="tools")
    return _offered(toolbox, names, family)


def call_words(name: str | None) -> str:
    """Return the words that ask for a call of the tool *name*, as on the wire, or of any."""
    return f"You must call the tool {name}." if name else "You must call one of the tools."


def _without_tools(
    history: Sequence[str], names: ToolNames, family: Family, stands_for: OutputFormat | None
) -> ToolConfig:
    specs = [stub(name, names) for name in dict.fromkeys(history)]
    name = names.free(ANSWER_TOOL)
    answer = stands_for.tool(name) if stands_for and family.takes_tools else None
    if answer and "tool" in family.forced_choices:
        return ToolConfig([*specs, answer], {"tool": {"name": name}}, unwraps=name)
    if answer and "any" in family.forced_choices and not specs:
        return ToolConfig([answer], {"any": {}}, unwraps=name)
    return ToolConfig(specs)


def _offered(toolbox: Toolbox, names: ToolNames, family: Family) -> ToolConfig:
    tools, name = toolbox.tools, None
    choice: dict[str, Any] | None = None
    if toolbox.choice.mode == "named":
        name = names.sent(toolbox.choice.name)
        if "tool" in family.forced_choices:
            choice = {"tool": {"name": name}}
        elif "any" in family.forced_choices:
            # Any of one is that one.
            tools, choice = tuple(tool for tool in tools if tool.name == toolbox.choice.name), {"any": {}}
    elif toolbox.choice.mode == "required" and "any" in family.forced_choices:
        choice = {"any": {}}
    dropped, words, own = set[str](), "", dict[str, Any]()
    if toolbox.choice.mode != "auto" and choice is None:
        dropped.add("tool_choice")
        words = call_words(name)
    if toolbox.one_at_a_time and family.single_call_switch:
        own = {"tool_choice": _claude_choice(choice)}
        choice = None  # Bedrock refuses what is said in both places
    elif toolbox.one_at_a_time:
        dropped.add("parallel_tool_calls")
    if unstrict(tools, family):
        dropped.add("tools.strict")
    specs = [tool.spec(names, family) for tool in tools]
    return ToolConfig(specs, choice, own=own, words=words, dropped=frozenset(dropped))


def _claude_choice(choice: dict[str, Any] | None) -> dict[str, Any]:
    """Converse's *choice* in Claude's own words, with the switch that Converse has no word for."""
    kind, detail = next(iter((choice or {"auto": {}}).items()))
    return {"type": kind, **detail, "disable_parallel_tool_use": True}
