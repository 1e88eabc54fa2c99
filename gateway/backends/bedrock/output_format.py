"""Structured output: JSON enforced by the model's grammar, by a tool that the model must call, or by an instruction.

Converse supports a grammar for some models. Otherwise the gateway defines a tool whose input schema is the requested
schema, and the tool's input becomes the answer. If the model cannot be forced to call a tool, the prompt asks for JSON.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.backends.bedrock.json_depth import read_shallow_object
from gateway.backends.bedrock.schema import Schema, grammar_schema, tool_schema
from gateway.backends.bedrock.tool_names import is_tool_name
from gateway.protocol.errors import InvalidField

ANSWER_TOOL = "json_answer"
"""Preferred name of the tool that the gateway defines to receive a JSON answer."""


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """JSON output that the client requests, with an optional JSON schema."""

    param: str
    """Name of the request field that requests JSON output."""
    schema: Schema | None = None
    """JSON schema of the answer, or None to accept any JSON object."""
    name: str = ""
    description: str = ""

    def output_config(self) -> dict[str, Any] | None:
        """Return Converse's ``outputConfig`` for the format, or None if a grammar cannot express the schema."""
        closed = grammar_schema(self.schema) if self.schema is not None else None
        if closed is None:
            return None
        definition = {"schema": msgspec.json.encode(closed).decode()}
        definition |= {"name": self.name} if is_tool_name(self.name) else {}
        definition |= {"description": self.description} if self.description.strip() else {}
        return {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": definition}}}

    def tool(self, name: str) -> dict[str, Any] | None:
        """Return a tool whose input is the answer, or None if the schema does not require an object."""
        if self.schema is None or self.schema.get("type") != "object":
            return None
        spec = {
            "name": name,
            "description": self.description if self.description.strip() else "Takes the answer.",
            "inputSchema": {"json": tool_schema(self.schema, self.param)},
        }
        return {"toolSpec": spec}

    def words(self) -> str:
        if self.schema is None:
            return "Answer with one JSON object and nothing else: no words before or after it, no code fence."
        return schema_words(msgspec.json.encode(self.schema).decode())


def schema_words(schema: str) -> str:
    """Return the instruction to answer in JSON that matches *schema*, a JSON schema as text."""
    return (
        "Answer with JSON that fits the following JSON schema, and with nothing else: no words before or after it, "
        f"no code fence.\n{schema}"
    )


def read_output_format(fields: Mapping[str, Any]) -> OutputFormat | None:
    """Return the output format that a chat request sets in OpenAI's or vLLM's fields, or None for plain text.

    Raises:
        InvalidField: if the request asks for a grammar, a regular expression or a choice, which Converse does not
            support.
    """
    format_ = fields.get("response_format")
    if format_ is not None:
        return _response_format(format_)
    structured = fields.get("structured_outputs")
    if isinstance(structured, dict):
        asked = {name: value for name, value in structured.items() if value is not None and value is not False}
        if asked.keys() <= {"json", "json_object"} and asked:
            return _guided("structured_outputs", asked.get("json"))
    if structured is not None:
        raise InvalidField("'structured_outputs' is not supported by the Bedrock fallback", param="structured_outputs")
    guided = fields.get("guided_json")
    return None if guided is None else _guided("guided_json", guided)


def _response_format(asked: object) -> OutputFormat | None:
    param = "response_format"
    match asked:
        case {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return OutputFormat(param)
        case {"type": "json_schema", "json_schema": dict(definition)}:
            name, description = definition.get("name"), definition.get("description")
            schema = definition.get("schema")
            if schema is not None and not isinstance(schema, dict):
                raise InvalidField(f"'{param}.json_schema.schema' must be a JSON schema", param=param)
            return OutputFormat(
                param,
                schema=schema,
                name=name if isinstance(name, str) else "",
                description=description if isinstance(description, str) else "",
            )
    raise InvalidField(f"'{param}' of this type is not supported by the Bedrock fallback", param=param)


def _guided(param: str, schema: object) -> OutputFormat:
    """Return the output format for a JSON schema given as an object or as JSON text, both of which vLLM accepts."""
    found = read_shallow_object(schema) if isinstance(schema, str) else schema
    if found is not None and not isinstance(found, dict):
        raise InvalidField(f"'{param}' must be a JSON schema", param=param)
    if found is None and schema is not None:
        raise InvalidField(f"'{param}' must be a JSON schema", param=param)
    return OutputFormat(param, schema=found)
