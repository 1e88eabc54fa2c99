"""Conversion of chat messages to Converse turns, which alternate between user and assistant. The first and last turn
are the user's.

1. Consecutive messages of one side are merged into one turn.
2. The results of an assistant turn's tool calls are placed at the start of the next user turn, in the order of the
   calls. A missing result is replaced by an error result. A result without a matching call becomes text.
3. System messages at the start become the system prompt. Later ones become user text at their position, because moving
   them to the start would change their meaning.
4. Where a family forbids two kinds of content in one turn, a short turn of the other side is inserted between them.
"""

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.backends.bedrock.documents import DOCUMENTS_PER_TURN
from gateway.backends.bedrock.family import Family
from gateway.backends.bedrock.images import IMAGES_PER_TURN
from gateway.backends.bedrock.json_depth import read_shallow_object
from gateway.backends.bedrock.message import Block, ChatMessage, Reasoning, ToolCall, ToolResult
from gateway.backends.bedrock.tool_names import ToolNames
from gateway.protocol.errors import InvalidField

Turn = dict[str, Any]

_PLACEHOLDER = "."
"""Placeholder text for user turns that must contain text although the client sent none."""
_GO_ON = "Continue."
"""Text of the user turn inserted between two assistant turns."""
_RECEIVED = "OK."
"""Text of the assistant turn inserted between two user turns."""
_NO_OUTPUT = "(no output)"
_NO_RESULT = "(the result of this call is missing)"

_STRANGE_IN_ID = re.compile(r"[^a-zA-Z0-9_.:-]")  # ToolUseId in botocore's service model, as is the length
_LONGEST_ID = 64


@dataclass(frozen=True, slots=True)
class Conversation:
    system: tuple[str, ...]
    turns: list[Turn]

    @property
    def uses_tools(self) -> bool:
        """Return whether the conversation contains tool calls or results. If so, Converse requires a ``toolConfig``."""
        return any("toolUse" in block or "toolResult" in block for turn in self.turns for block in turn["content"])

    @property
    def shows_reasoning(self) -> bool:
        """Return whether there are tool calls and each turn with calls begins with the reasoning for the calls."""
        calling = [turn["content"] for turn in self.turns if any("toolUse" in block for block in turn["content"])]
        return bool(calling) and all("reasoningContent" in content[0] for content in calling)


def tool_names(messages: Iterable[ChatMessage]) -> list[str]:
    """Return the tool names of all calls in *messages*, in order, including tools that the request does not define."""
    return [call.name for message in messages for call in message.calls]


def converse(messages: Sequence[ChatMessage], *, family: Family, names: ToolNames, calls_as_text: bool) -> Conversation:
    """Convert *messages* to a Converse conversation. O(blocks).

    *names* must contain all names returned by `tool_names`. *calls_as_text* turns tool calls and results into text, for
    requests that cannot use tools.

    Raises:
        InvalidField: if the last message is the assistant's (few models continue it), the family accepts no images, or
            a turn has more images or files than Bedrock accepts.
    """
    head = list(itertools.takewhile(lambda message: message.role == "system", messages))
    rest = [message for message in messages[len(head) :] if message.role == "user" or not message.is_empty]
    if rest and rest[-1].role == "assistant":
        raise InvalidField(
            "The Bedrock fallback cannot serve 'messages' that end with an assistant message", param="messages"
        )
    writer = _Writer(family, names, calls_as_text=calls_as_text)
    for is_assistant, run in itertools.groupby(rest, key=lambda message: message.role == "assistant"):
        if is_assistant:
            writer.write_assistant(list(run))
        else:
            writer.write_user(list(run))
    turns = writer.turns
    if not turns or turns[0]["role"] == "assistant":
        turns.insert(0, _turn("user", [{"text": _PLACEHOLDER}]))
    _check_media(turns, family)
    return Conversation(tuple(block["text"] for message in head for block in message.blocks), turns)


class _Writer:
    def __init__(self, family: Family, names: ToolNames, *, calls_as_text: bool) -> None:
        self.turns: list[Turn] = []
        self._family = family
        self._names = names
        self._calls_as_text = calls_as_text
        self._ids = _ToolUseIds()
        self._open: list[tuple[ToolCall, str]] = []
        """Tool calls of the last assistant turn, with the ids that Bedrock receives for them."""

    def write_assistant(self, messages: list[ChatMessage]) -> None:
        """Append *messages* as one assistant turn. At least one of the messages must have content."""
        said = [block for message in messages for block in message.blocks]
        calls = [call for message in messages for call in message.calls]
        if self._calls_as_text:
            self._open = [(call, "") for call in calls]
            self.turns.append(_turn("assistant", said + [{"text": _call_text(call)} for call in calls]))
            return
        self._open = [(call, self._ids.take(call.id)) for call in calls]
        uses = [
            {"toolUse": {"toolUseId": use_id, "name": self._names.sent(call.name), "input": call.arguments}}
            for call, use_id in self._open
        ]
        said = [*self._reminded(messages), *said]
        if said and uses and not self._family.text_beside_calls:
            self.turns += [_turn("assistant", said), _turn("user", [{"text": _GO_ON}]), _turn("assistant", uses)]
        else:
            self.turns.append(_turn("assistant", said + uses))

    def _reminded(self, messages: list[ChatMessage]) -> list[Block]:
        """Return the reasoning blocks in *messages* that models of this family must receive again."""
        shown = [each for message in messages for each in message.reasoning]
        match self._family.keeps_reasoning:
            case "signed":
                return [_reasoning(each) for each in shown if each.signature]
            case "plain":
                return [_reasoning(Reasoning(each.text)) for each in shown if each.text]
        return []

    def write_user(self, messages: list[ChatMessage]) -> None:
        """Append user, system and tool messages as one user turn, with placeholder text if all of them are empty."""
        answers, others = self._matched(messages)
        if self._calls_as_text:
            self.turns.append(_turn("user", others or [{"text": _PLACEHOLDER}]))
            return
        answered = [
            _tool_result(use_id, answer, self._family) for (_, use_id), answer in zip(self._open, answers, strict=True)
        ]
        results = [result for result, _ in answered]
        others = [block for _, moved in answered for block in moved] + others
        if results and others and not self._stand_together(others):
            self.turns += [_turn("user", results), _turn("assistant", [{"text": _RECEIVED}])]
            results = []
        self.turns.append(_turn("user", results + others or [{"text": _PLACEHOLDER}]))

    def _stand_together(self, others: list[Block]) -> bool:
        """Return whether tool results are allowed in the same turn as the blocks in *others*."""
        has_document = any("document" in block for block in others)
        return not self._family.results_alone and (self._family.documents_beside_results or not has_document)

    def _matched(self, messages: list[ChatMessage]) -> tuple[list[ToolResult | None], list[Block]]:
        """Return the results of all open tool calls, and all other blocks in their original order."""
        answers: list[ToolResult | None] = [None] * len(self._open)
        others: list[Block] = []
        for message in messages:
            if message.result is None:
                others += message.blocks
                continue
            at = self._call_of(message.result, answers)
            if at is not None:
                answers[at] = message.result
            if at is None or self._calls_as_text:
                name = message.result.name if at is None else self._open[at][0].name
                others += _result_blocks(message.result, name)
        return answers, others

    def _call_of(self, result: ToolResult, answers: list[ToolResult | None]) -> int | None:
        """Return the index of the first unanswered call that matches *result* by id or, if the result has no id, by
        tool name.
        """
        for at, (call, _) in enumerate(self._open):
            is_meant = call.id == result.call_id if result.call_id else result.name in (None, call.name)
            if answers[at] is None and is_meant:
                return at
        return None


class _ToolUseIds:
    """Assignment of unique tool call ids, because engines restart their numbering in every turn."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def take(self, wanted: str | None) -> str:
        plain = _STRANGE_IN_ID.sub("_", wanted or "call")[:_LONGEST_ID]
        made = plain
        while made in self._taken:
            number = self._numbers[plain] = self._numbers.get(plain, 1) + 1
            tail = f"_{number}"
            made = plain[: _LONGEST_ID - len(tail)] + tail
        self._taken.add(made)
        return made


def _reasoning(block: Reasoning) -> Block:
    if block.is_redacted:
        return {"reasoningContent": {"redactedContent": block.signature}}
    signature = {"signature": block.signature} if block.signature else {}
    return {"reasoningContent": {"reasoningText": {"text": block.text, **signature}}}


def _turn(role: str, blocks: list[Block]) -> Turn:
    """Return a message with the role *role*. Text is added to a message with a document but without text."""
    if any("document" in block for block in blocks) and not any("text" in block for block in blocks):
        blocks = [*blocks, {"text": _PLACEHOLDER}]
    return {"role": role, "content": blocks}


def _tool_result(use_id: str, answer: ToolResult | None, family: Family) -> tuple[Block, list[Block]]:
    """Return the tool result block, and the media blocks that must be in the turn instead of in the result."""
    result: dict[str, Any] = {"toolUseId": use_id}
    if answer is None:
        result["content"] = _texts([_NO_RESULT], family)
        if family.result_status:
            result["status"] = "error"
        return {"toolResult": result}, []
    texts = [block["text"] for block in answer.blocks if "text" in block]
    media = [block for block in answer.blocks if "text" not in block]
    inside = [block for block in media if "image" in block and family.images_in_results]
    moved = [block for block in media if block not in inside]
    result["content"] = (_texts(texts, family) if texts or not inside else []) + inside
    return {"toolResult": result}, moved


def _texts(texts: list[str], family: Family) -> list[Block]:
    if not family.json_results:
        return [{"text": text} for text in texts or [_NO_OUTPUT]]
    whole = "\n".join(texts or [_NO_OUTPUT])
    return [{"json": read_shallow_object(whole) or {"result": whole}}]


def _call_text(call: ToolCall) -> str:
    return f"I called the tool {call.name} with {msgspec.json.encode(call.arguments).decode()}."


def _result_blocks(result: ToolResult, name: str | None) -> list[Block]:
    """Return a tool result as a text block, followed by its images and files as separate blocks."""
    whose = f"the tool {name}" if name else "a tool"
    texts = [block["text"] for block in result.blocks if "text" in block]
    media = [block for block in result.blocks if "text" not in block]
    return [{"text": "\n".join([f"Result of {whose}:", *(texts or [_NO_OUTPUT])])}, *media]


def _check_media(turns: list[Turn], family: Family) -> None:
    for turn in turns:
        blocks = [*turn["content"], *(inner for block in turn["content"] for inner in _inside(block))]
        images = sum("image" in block for block in blocks)
        if images and not family.takes_images:
            raise InvalidField(
                "'messages' contains images, which the model of the Bedrock fallback does not accept", param="messages"
            )
        if images > IMAGES_PER_TURN:
            raise InvalidField(f"'messages' contains more than {IMAGES_PER_TURN} images in one turn", param="messages")
        if sum("document" in block for block in blocks) > DOCUMENTS_PER_TURN:
            raise InvalidField(
                f"'messages' contains more than {DOCUMENTS_PER_TURN} files in one turn", param="messages"
            )


def _inside(block: Block) -> list[Block]:
    inner: list[Block] = block.get("toolResult", {}).get("content", [])
    return inner
