"""Parser of OpenAI chat messages into Converse content blocks.

Each message is parsed separately. conversation.py decides in which turn its blocks are sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gateway.backends.bedrock.documents import Documents
from gateway.backends.bedrock.images import image_block
from gateway.backends.bedrock.json_depth import read_shallow_object
from gateway.protocol.errors import InvalidField

Block = dict[str, Any]
Role = Literal["system", "user", "assistant"]

_ROLES: Mapping[object, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "tool": "user",
    "function": "user",
    "assistant": "assistant",
}

_THOUGHTS = ("reasoning_content", "reasoning")
_THINKING = frozenset({"thinking", "redacted_thinking", "reasoning"})
"""Types of content parts that contain reasoning."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Tool call in a message of the assistant."""

    id: str | None
    """Id of the tool call, or None in OpenAI's older ``function_call`` format."""
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Result of a tool call, sent by the client."""

    call_id: str | None
    name: str | None
    """Name of the tool, or None if the client did not send it. In OpenAI's older format, it replaces the call id."""
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning that the assistant wrote before its answer."""

    text: str
    signature: str | None = None
    """Signature by the model that wrote the reasoning, or None. Claude rejects reasoning without a signature."""
    is_redacted: bool = False
    """Whether the reasoning consists only of its encrypted signature."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    role: Role
    blocks: tuple[Block, ...]
    """Content blocks of the message: non-blank text, images and documents."""
    calls: tuple[ToolCall, ...] = ()
    """Tool calls in an assistant message."""
    result: ToolResult | None = None
    """Result in a tool message, or None. A message with a result has no blocks."""
    reasoning: tuple[Reasoning, ...] = ()
    """Reasoning in the assistant message, in order."""

    @property
    def is_empty(self) -> bool:
        return not (self.blocks or self.calls or self.result)


def read_messages(messages: object) -> list[ChatMessage]:
    """Parse the ``messages`` field of a chat request. O(bytes).

    Raises:
        InvalidField: if a message is malformed or has an unknown role or an unsupported kind of content.
    """
    if not isinstance(messages, list) or not messages:
        raise InvalidField("'messages' must be a non-empty array", param="messages")
    documents = Documents()
    return [_message(message, f"messages[{at}]", documents) for at, message in enumerate(messages)]


def _message(message: object, where: str, documents: Documents) -> ChatMessage:
    if not isinstance(message, dict):
        raise InvalidField(f"'{where}' must be an object", param=where)
    said = message.get("role")
    role = _ROLES.get(said) if isinstance(said, str) else None
    if role is None:
        raise InvalidField(
            f"'{where}.role' must be system, developer, user, assistant, tool or function", param=f"{where}.role"
        )
    blocks = tuple(_blocks(message, where, documents, may_be_absent=said in ("assistant", "tool", "function")))
    if role != "user" and any("text" not in block for block in blocks):
        raise InvalidField(f"'{where}.content' must be text for the role {said}", param=f"{where}.content")
    if said in ("tool", "function"):
        return ChatMessage(role, (), result=_result(message, blocks))
    if role == "assistant":
        return _assistant(message, where, blocks)
    return ChatMessage(role, blocks)


def _assistant(message: Mapping[str, Any], where: str, blocks: tuple[Block, ...]) -> ChatMessage:
    """Parse an assistant message. Its reasoning is kept separate, as only some models must receive it again."""
    if message.get("audio"):
        raise InvalidField(f"'{where}.audio' is not supported by the Bedrock fallback", param=f"{where}.audio")
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal.strip():
        blocks += ({"text": refusal},)
    return ChatMessage(
        "assistant", blocks, calls=tuple(_calls(message, where)), reasoning=tuple(_all_reasoning(message))
    )


def _all_reasoning(message: Mapping[str, Any]) -> list[Reasoning]:
    """Return the reasoning in Anthropic's content parts or in ``thinking_blocks``, otherwise in the fields of inference
    engines.
    """
    parts = [*_list(message.get("thinking_blocks")), *_list(message.get("content"))]
    found = [each for part in parts if (each := _reasoning_in(part)) is not None]
    if found:
        return found
    said = next((message[name] for name in _THOUGHTS if isinstance(message.get(name), str)), "")
    return [Reasoning(said)] if said.strip() else []


def _reasoning_in(part: object) -> Reasoning | None:
    match part:
        case {"type": "thinking", "thinking": str(text), "signature": str(signature)} if signature:
            return Reasoning(text, signature)
        case {"type": "thinking", "thinking": str(text)} | {"type": "reasoning", "text": str(text)}:
            return Reasoning(text) if text.strip() else None
        case {"type": "redacted_thinking", "data": str(data)} if data:
            return Reasoning("", data, is_redacted=True)
    return None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _blocks(message: Mapping[str, Any], where: str, documents: Documents, *, may_be_absent: bool) -> list[Block]:
    content = message.get("content")
    match content:
        case str():
            blocks: list[Block] = [{"text": content}]
        case list():
            blocks = [
                _block(part, f"{where}.content[{at}]", documents)
                for at, part in enumerate(content)
                if not _is_reasoning(part, message)
            ]
        case None if may_be_absent:
            blocks = []
        case _:
            raise InvalidField(f"'{where}.content' must be a string or an array of parts", param=f"{where}.content")
    return [block for block in blocks if block.get("text", "x").strip()]


def _is_reasoning(part: object, message: Mapping[str, Any]) -> bool:
    kind = part.get("type") if isinstance(part, dict) and message.get("role") == "assistant" else None
    return isinstance(kind, str) and kind in _THINKING


def _block(part: object, where: str, documents: Documents) -> Block:
    match part:
        case str(text) | {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
            return {"text": text}
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
            return image_block(url, f"{where}.image_url")
        case {"type": "file", "file": dict(file)}:
            return documents.block(file, f"{where}.file")
        case {"type": "text" | "refusal" | "image_url" | "file" as kind}:
            raise InvalidField(f"'{where}' must contain a valid '{kind}' value", param=where)
        case {"type": str()}:
            raise InvalidField(
                f"'{where}' is not text, an image or a file. The Bedrock fallback supports no other media", param=where
            )
    raise InvalidField(f"'{where}' must be a content part with a 'type'", param=where)


def _result(message: Mapping[str, Any], blocks: tuple[Block, ...]) -> ToolResult:
    call_id, name = message.get("tool_call_id"), message.get("name")
    return ToolResult(
        call_id=call_id if isinstance(call_id, str) else None,
        name=name if isinstance(name, str) else None,
        blocks=blocks,
    )


def _calls(message: Mapping[str, Any], where: str) -> list[ToolCall]:
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise InvalidField(f"'{where}.tool_calls' must be an array", param=f"{where}.tool_calls")
    read = [_call(call, f"{where}.tool_calls[{at}]") for at, call in enumerate(calls)]
    old = message.get("function_call")
    if old:
        read.append(_call({"function": old}, f"{where}.function_call"))
    return read


def _call(call: object, where: str) -> ToolCall:
    match call:
        case {"function": {"name": str(name), **function}, **rest} if rest.get("type", "function") == "function":
            call_id = rest.get("id")
            return ToolCall(
                id=call_id if isinstance(call_id, str) else None,
                name=name,
                arguments=_arguments(function.get("arguments")),
            )
    raise InvalidField(f"'{where}' must be a function call", param=where)


def _arguments(arguments: object) -> dict[str, Any]:
    """Return the arguments of a call as an object, which Converse requires, even if the model wrote no arguments or
    invalid JSON.
    """
    match arguments:
        case dict():
            return arguments
        case None:
            return {}
        case str() if not arguments.strip() or arguments.strip() == "null":
            return {}
        case str():
            found = read_shallow_object(arguments)
            return {"value": arguments} if found is None else found
        case _:
            return {"value": arguments}
