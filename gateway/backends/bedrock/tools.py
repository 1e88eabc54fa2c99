"""Parser for the tools and the tool choice in a chat request."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gateway.backends.bedrock.family import Family
from gateway.backends.bedrock.schema import Schema, grammar_schema, tool_schema
from gateway.backends.bedrock.tool_names import ToolNames
from gateway.protocol.errors import InvalidField

_STUB: Schema = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class Tool:
    """Function that the client offers to the model as a tool."""

    name: str
    description: str
    schema: Schema
    strict: bool

    def spec(self, names: ToolNames, family: Family) -> dict[str, Any]:
        """Return the tool as an entry for ``toolConfig.tools``."""
        closed = grammar_schema(self.schema) if self.strict and family.native_schema else None
        spec: dict[str, Any] = {"name": names.sent(self.name), "inputSchema": {"json": closed or self.schema}}
        if self.description.strip():
            spec["description"] = self.description
        if closed:
            spec["strict"] = True
        return {"toolSpec": spec}


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Choice whether the model must call a tool, and which tool."""

    mode: Literal["auto", "required", "none", "named"]
    name: str = ""
    """Name of the tool, or an empty string if the tool choice does not name one."""


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Tools and tool choice of one chat request."""

    tools: tuple[Tool, ...]
    choice: ToolChoice
    one_at_a_time: bool
    """Whether the client sent ``parallel_tool_calls: false``."""

    @property
    def names(self) -> list[str]:
        return [tool.name for tool in self.tools]


def read_tools(fields: Mapping[str, Any]) -> Toolbox:
    """Parse the tools of a chat request, in OpenAI's current or older (``functions``) format. O(fields).

    Raises:
        InvalidField: if a tool is not a function, or the tool choice names an unknown tool.
    """
    tools = _tools(fields)
    is_old = not fields.get("tools") and bool(fields.get("functions"))
    param = "function_call" if is_old else "tool_choice"
    choice, allowed = _choice(fields.get(param), param)
    if allowed is not None:
        tools = tuple(tool for tool in tools if tool.name in allowed)
    if choice.mode == "required" and not tools:
        raise InvalidField(f"'{param}' requires a tool call, but the request defines no tools", param=param)
    if choice.mode == "named" and choice.name not in (tool.name for tool in tools):
        raise InvalidField(f"'{param}' names a tool that is not in 'tools'", param=param)
    return Toolbox(tools, choice, one_at_a_time=fields.get("parallel_tool_calls") is False)


def stub(name: str, names: ToolNames) -> dict[str, Any]:
    """Return a definition for a tool known only by name. Converse requires all tools called in earlier messages."""
    return {"toolSpec": {"name": names.sent(name), "inputSchema": {"json": _STUB}}}


def unstrict(tools: Iterable[Tool], family: Family) -> bool:
    """Return whether one of *tools* requests strict mode although the model cannot enforce it."""
    return any(tool.strict and not (family.native_schema and grammar_schema(tool.schema) is not None) for tool in tools)


def _tools(fields: Mapping[str, Any]) -> tuple[Tool, ...]:
    tools, functions = fields.get("tools") or [], fields.get("functions") or []
    for name, value in (("tools", tools), ("functions", functions)):
        if not isinstance(value, list):
            raise InvalidField(f"'{name}' must be an array", param=name)
    if tools:
        read = [_tool(tool, f"tools[{at}]") for at, tool in enumerate(tools)]
    else:
        read = [_function(function, f"functions[{at}]") for at, function in enumerate(functions)]
    # The last of one name counts; Bedrock refuses names that come twice.
    return tuple({tool.name: tool for tool in read}.values())


def _tool(tool: object, where: str) -> Tool:
    match tool:
        case {"type": "function", "function": function}:
            return _function(function, f"{where}.function")
        case {"type": str(kind)} if kind != "function":
            raise InvalidField(
                f"'{where}' is not a function. The Bedrock fallback supports only function tools", param=where
            )
    raise InvalidField(f"'{where}' must be a function", param=where)


def _function(function: object, where: str) -> Tool:
    match function:
        case {"name": str(name)} if name and isinstance(function, dict):
            description = function.get("description")
            return Tool(
                name=name,
                description=description if isinstance(description, str) else "",
                schema=tool_schema(function.get("parameters"), f"{where}.parameters"),
                strict=function.get("strict") is True,
            )
    raise InvalidField(f"'{where}.name' must be a non-empty string", param=f"{where}.name")


def _choice(choice: object, param: str) -> tuple[ToolChoice, set[str] | None]:
    """Return the tool choice, and the names of the allowed tools, or None if all tools are allowed."""
    match choice:
        case None | "auto":
            return ToolChoice("auto"), None
        case "none" | "required":
            return ToolChoice(choice), None
        case {"type": "function", "function": {"name": str(name)}} | {"name": str(name)}:
            return ToolChoice("named", name), None
        case {"type": "allowed_tools", "allowed_tools": {"mode": "auto" | "required" as mode, "tools": list(tools)}}:
            return ToolChoice(mode), {_allowed_name(tool, param) for tool in tools}
    raise InvalidField(f"'{param}' must be none, auto, required, or the name of a function", param=param)


def _allowed_name(tool: object, param: str) -> str:
    match tool:
        case {"type": "function", "function": {"name": str(name)}}:
            return name
    raise InvalidField(f"'{param}.allowed_tools' must contain functions", param=param)
