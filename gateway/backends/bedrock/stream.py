"""Conversion of ConverseStream events to the chunks of an OpenAI chat completion.

1. The role is sent with the first content, so that an earlier failure can still be retried on another backend.
2. The finish chunk is held back until the metadata event or the end, because only the usage may follow it.
3. ``[DONE]`` is sent only after ``messageStop``, and only if all frames are complete. Otherwise a truncated stream
   would look complete.
4. Tool calls are numbered from 0, because Bedrock's ``contentBlockIndex`` also counts text and reasoning.
5. If the gateway finds a stop string, the answer is complete. Of later events only the usage is used.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.backends.bedrock.answer import CallIds, Terms, arguments, finish_reason, usage
from gateway.backends.bedrock.frame import StreamEvent
from gateway.backends.bedrock.inline_reasoning import ReasoningSplitter
from gateway.backends.bedrock.stops import StopGuard
from gateway.backends.bedrock.wire import Heading
from gateway.protocol.errors import ReplyBroken

DONE = b"data: [DONE]\n\n"


@dataclass(slots=True)
class _OpenTool:
    """Tool call whose end has not arrived yet."""

    number: int
    """Index of the tool call among the calls of the response. The first call has index 0."""
    has_arguments: bool = False


@dataclass(slots=True)
class _OpenAnswer:
    """Call of the tool whose input is the JSON answer."""

    has_content: bool = False


class ChunkWriter:
    """Converter that turns the events of one response into server-sent events, one by one."""

    def __init__(self, heading: Heading, *, terms: Terms | None = None, includes_usage: bool) -> None:
        """Create a writer. *includes_usage* adds the usage chunk that the client requested with ``stream_options``."""
        self._head = {
            "id": heading.completion_id,
            "object": "chat.completion.chunk",
            "created": heading.created,
            "model": heading.model,
        }
        self._reasoning_field = heading.reasoning_field
        self._includes_usage = includes_usage
        self._terms = terms or Terms()
        self._guard = StopGuard(self._terms.text_stops)
        self._splitter = ReasoningSplitter(has_tags=self._terms.inline_reasoning)
        self._ids = CallIds()
        self._open: dict[object, _OpenTool | _OpenAnswer | None] = {}
        """Open tool calls by Bedrock's content block index. A call that is hidden from the client has the value None.
        """
        self._calls = 0
        self._unwraps = False
        """Whether the tool whose input is the JSON answer has been called."""
        self._aside: list[str] = []
        """Text before the call of the JSON answer tool. It is the answer only if the model never calls the tool."""
        self._has_role = False
        self._finish: str | None = None
        self._has_finish = False

    @property
    def has_stopped(self) -> bool:
        """Return whether the answer is complete. Its token usage can still be missing."""
        return self._finish is not None

    @property
    def was_stopped(self) -> bool:
        """Return whether the gateway has found a stop string, so that later content from Bedrock is ignored."""
        return self._guard.has_stopped

    def write(self, event: StreamEvent) -> bytes:
        """Return the server-sent events for *event*, which are often ``b""``.

        Raises:
            ReplyBroken: if the model's output is malformed or the event has an unexpected structure.
        """
        payload = event.payload
        block = payload.get("contentBlockIndex")
        shown = b""
        match event.name:
            case "metadata":
                shown = self._metadata(payload.get("usage"))
            case _ if self._guard.has_stopped:
                pass
            case "contentBlockStart":
                shown = self._start(block, payload.get("start"))
            case "contentBlockDelta":
                shown = self._delta(block, payload.get("delta"))
            case "contentBlockStop":
                shown = self._stop(block)
            case "messageStop":
                shown = self._message_stop(payload.get("stopReason"))
            case _:  # messageStart, and whatever Bedrock adds later
                pass
        return shown

    def end(self, *, leftover: int) -> bytes:
        """Return the last server-sent events. *leftover* is the number of received bytes that form no complete frame.

        Raises:
            ReplyBroken: if the stream is truncated.
        """
        if not self.has_stopped or (leftover and not self.was_stopped):
            raise ReplyBroken("Bedrock's stream was cut off before its end")
        return self._finishing() + DONE

    def _start(self, block: object, start: object) -> bytes:
        match start:
            case {"toolUse": {"name": str(name)} as call}:
                pass
            case _:  # text and reasoning need no start; a stand-in for Bedrock may send one that is empty
                return b""
        if name == self._terms.unwraps_tool:
            self._open[block] = None if self._unwraps else _OpenAnswer()
            self._unwraps = True
            self._aside.clear()
            return b""
        before = self._rest()
        if self._guard.has_stopped:
            return before
        tool = self._open[block] = _OpenTool(self._calls)
        self._calls += 1
        begun = {
            "index": tool.number,
            "id": self._ids.unique(call.get("toolUseId")),
            "type": "function",
            "function": {"name": self._terms.original(name), "arguments": ""},
        }
        return before + self._role() + self._choice({"tool_calls": [begun]})

    def _delta(self, block: object, delta: object) -> bytes:
        match delta:
            case {"text": str(text)}:
                return self._text(text)
            case {"reasoningContent": {"text": str(reasoning)}}:
                return self._content(self._reasoning_field, reasoning)
            case {"toolUse": {"input": fragment}}:
                return self._fragment(block, fragment if isinstance(fragment, str) else arguments(fragment))
            case _:  # signatures, citations
                return b""

    def _text(self, text: str) -> bytes:
        if self._unwraps:
            return b""  # beside the answer, which is JSON and would be none with a word before or behind it
        if self._terms.unwraps_tool is not None:
            self._aside.append(text)
            return b""
        return self._split(*self._splitter.feed(text))

    def _split(self, reasoning: str, text: str) -> bytes:
        shown = self._content(self._reasoning_field, reasoning) + self._content("content", self._guard.feed(text))
        if self._guard.has_stopped:
            self._finish = "stop"
            shown += self._finishing()
        return shown

    def _rest(self) -> bytes:
        """Return the held-back text that turned out not to be a tag or a stop string."""
        return self._split(*self._splitter.rest()) + self._content("content", self._guard.rest())

    def _fragment(self, block: object, fragment: str) -> bytes:
        if block not in self._open:
            raise ReplyBroken("Bedrock sent a delta for a tool call that has not started")
        if not fragment:
            return b""
        match self._open[block]:
            case _OpenTool() as tool:
                tool.has_arguments = True
                return self._arguments(tool, fragment)
            case _OpenAnswer() as answer:
                answer.has_content = True
                return self._content("content", fragment)
        return b""

    def _stop(self, block: object) -> bytes:
        """Close a tool call. A call without input gets an empty JSON object as its arguments."""
        match self._open.pop(block, None):
            case _OpenTool(has_arguments=False) as tool:
                return self._arguments(tool, "{}")
            case _OpenAnswer(has_content=False):
                return self._content("content", "{}")
        return b""

    def _message_stop(self, stop_reason: object) -> bytes:
        finish = finish_reason(stop_reason, has_calls=self._calls > 0)
        released = self._released()
        self._finish = self._finish or finish
        return released + b"".join([self._stop(block) for block in list(self._open)])

    def _released(self) -> bytes:
        """Return the text that was held back for a JSON answer tool that the model never called."""
        shown = self._split(*self._splitter.feed("".join(self._aside)))
        self._aside.clear()
        return shown + self._rest()

    def _arguments(self, tool: _OpenTool, fragment: str) -> bytes:
        return self._choice({"tool_calls": [{"index": tool.number, "function": {"arguments": fragment}}]})

    def _content(self, field: str, text: str) -> bytes:
        """Return a chunk with *text*, or ``b""`` if *text* is empty, because some models send an empty block before
        their reasoning.
        """
        return self._role() + self._choice({field: text}) if text else b""

    def _metadata(self, tokens: object) -> bytes:
        chunks = self._finishing() if self.has_stopped else b""
        if self._includes_usage and isinstance(tokens, dict):
            chunks += self._chunk({"choices": [], "usage": usage(tokens)})
        return chunks

    def _finishing(self) -> bytes:
        if self._has_finish:
            return b""
        self._has_finish = True
        return self._role() + self._choice({}, self._finish)

    def _role(self) -> bytes:
        if self._has_role:
            return b""
        self._has_role = True
        return self._choice({"role": "assistant", "content": ""})

    def _choice(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        return self._chunk({"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]})

    def _chunk(self, rest: dict[str, Any]) -> bytes:
        return b"data: " + msgspec.json.encode(self._head | rest) + b"\n\n"
