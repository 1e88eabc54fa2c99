"""Tool configuration for Converse: offered tools, tools in earlier messages, and the tool that receives a JSON answer.

Converse requires a ``toolConfig`` if the history contains tool calls, and has no equivalent of tool choice ``none``. A
request that must not call tools therefore has its history converted to text (`calls_as_text`) and has no tools.
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
    """Part of a Converse request that concerns tools."""

    specs: list[dict[str, Any]] = field(default_factory=list)
    choice: dict[str, Any] | None = None
    """Value of Converse's ``toolChoice``, or None to let the model decide."""
    own: dict[str, Any] = field(default_factory=dict)
    """Model-specific request fields, such as a tool choice for Claude that Converse cannot express."""
    words: str = ""
    """Instructions for the system prompt that no request field can express."""
    unwraps: str | None = None
    """Name of the tool whose input is the JSON answer, or None."""
    dropped: frozenset[str] = frozenset()

    @property
    def forces(self) -> bool:
        """Return whether the model must call a tool."""
        return bool(self.choice) or self.own.get("tool_choice", {}).get("type") in ("any", "tool")

    def payload(self) -> dict[str, Any] | None:
        if not self.specs:
            return None
        return {"tools": self.specs} | ({"toolChoice": self.choice} if self.choice else {})


def calls_as_text(toolbox: Toolbox, family: Family) -> bool:
    """Return whether tool calls and results in earlier messages must be converted to text."""
    return toolbox.choice.mode == "none" or not family.takes_tools


def tool_config(
    toolbox: Toolbox, *, history: Sequence[str], names: ToolNames, family: Family, stands_for: OutputFormat | None
) -> ToolConfig:
    """Return the tool configuration of a request.

    *history* lists the tool names of the conversation's calls. *stands_for* is the output format that a tool must
    enforce because the model has no grammar.

    Raises:
        InvalidField: if the model family does not support tools.
    """
    if toolbox.choice.mode == "none" or not toolbox.tools:
        return _without_tools(history, names, family, stands_for)
    if not family.takes_tools:
        raise InvalidField("'tools' is not supported by this model of the Bedrock fallback", param="tools")
    return _offered(toolbox, names, family)


def call_words(name: str | None) -> str:
    """Return an instruction to call the tool *name* (as sent to Bedrock), or to call any tool if *name* is None."""
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
    """Return *choice* in Claude's own format with parallel tool calls disabled, which Converse cannot express."""
    kind, detail = next(iter((choice or {"auto": {}}).items()))
    return {"type": kind, **detail, "disable_parallel_tool_use": True}
