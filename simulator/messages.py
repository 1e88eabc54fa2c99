"""Anthropic's Messages API as in vLLM (vllm/entrypoints/anthropic), which maps it to a chat.

1. `cache_control` and the billing header, which some clients put before their system prompt, do not change the prompt.
2. Tool results become separate messages, before the other content of their turn.
3. Usage counts the whole prompt as input tokens, whether cached or not. Cached tokens are not reported, as in vLLM.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from simulator.bodies import BodyReader, ChatPrompt, GenerationRequest, decode_body
from simulator.errors import ApiError
from simulator.exchange import HttpExchange
from simulator.generation import Incoming
from simulator.guided_fields import functions_of, guide_for_tools
from simulator.guides import Guide
from simulator.replies import ChoiceText, ReplyShape
from simulator.sse import Event, Json
from simulator.tokens import TokenSequence

_BILLING = "x-anthropic-billing-header"
_OF_TOOLS_AND_THOUGHT = ("tool_use", "tool_result", "thinking", "redacted_thinking")
_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens"}  # vLLM has none for abort


class _CountBody(msgspec.Struct, frozen=True, kw_only=True):
    messages: list[dict[str, Any]]
    model: str | None = None
    system: str | list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None


class _MessagesBody(_CountBody, frozen=True, kw_only=True):
    max_tokens: Annotated[int, msgspec.Meta(ge=1)]
    stream: bool | None = None
    tool_choice: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class MessagesEndpoint:
    reader: BodyReader

    def read(self, incoming: Incoming) -> tuple[GenerationRequest, ReplyShape]:
        asked = decode_body(incoming.json_body(), _MessagesBody)
        prompt = self._prompt(asked)
        limit = self.reader.max_tokens(len(prompt), asked.max_tokens, source="messages")
        adapter = self.reader.adapter(asked.model)
        request = GenerationRequest(
            prompts=[prompt], max_tokens=[limit], adapter=adapter, streams=bool(asked.stream), guide=_guide(asked)
        )
        model = adapter or self.reader.model
        return request, MessagesShape(f"chatcmpl-{incoming.base_id}", model, input_tokens=len(prompt))

    async def count_tokens(self, exchange: HttpExchange) -> None:
        body = await exchange.body()
        exchange.require_json()
        tokens = len(self._prompt(decode_body(body, _CountBody)))
        await exchange.reply_json({"input_tokens": tokens, "context_management": {"original_input_tokens": tokens}})

    def _prompt(self, asked: _CountBody) -> TokenSequence:
        self.reader.adapter(asked.model)
        reported = _system_text(asked.system)
        system = [{"role": "system", "content": reported}] if reported else []
        turns = [message for turn in asked.messages for message in _messages_of(turn)]
        tools = [_tool(tool) for tool in asked.tools or ()]
        return self.reader.chat_tokens(ChatPrompt(messages=[*system, *turns], tools=tools))


@dataclass(frozen=True, slots=True)
class MessagesShape:
    id: str
    model: str
    input_tokens: int

    def begin(self) -> list[Event]:
        return []

    def opening(self, choice: ChoiceText, usage: Json | None) -> list[Event]:  # noqa: ARG002 - it comes at the end
        usage_at_start = {"input_tokens": self.input_tokens, "output_tokens": 0}
        message = self._message([], None) | {"stop_sequence": None, "usage": usage_at_start}
        block: Json = {"type": "text", "text": ""}
        if choice.call is not None:
            block = {"type": "tool_use", "id": choice.call.id, "name": choice.call.name, "input": {}}
        return [_event("message_start", message=message), _event("content_block_start", index=0, content_block=block)]

    def token(self, choice: ChoiceText, usage: Json | None) -> list[Event]:  # noqa: ARG002 - usage comes at the end
        if choice.call is not None and choice.call.arguments:
            delta = {"type": "input_json_delta", "partial_json": choice.call.arguments}
            return [_event("content_block_delta", index=0, delta=delta)]
        if not choice.text:
            return []
        return [_event("content_block_delta", index=0, delta={"type": "text_delta", "text": choice.text})]

    def closing(self, choices: Sequence[ChoiceText], usage: Json, *, include_usage: bool) -> list[Event]:  # noqa: ARG002
        delta = {"stop_reason": _stop_reason(choices[0])}
        return [
            _event("content_block_stop", index=0),
            _event("message_delta", delta=delta, usage=_usage(usage)),
            _event("message_stop"),
        ]

    def failure(self, error: ApiError, body: Json) -> list[Event]:  # noqa: ARG002 - the body says it all
        return [Event(body, name="error")]

    def body(self, choices: Sequence[ChoiceText], usage: Json) -> Json:
        text = choices[0].text
        content: list[Json] = [{"type": "text", "text": text}] if text else []
        call = choices[0].call
        if call is not None:
            content = [{"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call.arguments)}]
        return self._message(content, _stop_reason(choices[0])) | {"usage": _usage(usage)}

    def _message(self, content: list[Json], stop_reason: str | None) -> Json:
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "content": content,
            "model": self.model,
            "stop_reason": stop_reason,
        }


def _event(name: str, /, **fields: Any) -> Event:
    return Event({"type": name, **fields}, name=name)


def _guide(asked: _MessagesBody) -> Guide | None:
    """Return the guide for the tools. A message with a tool result is a tool message, even if it also has text."""
    last = asked.messages[-1]
    messages = list(_messages_of(last))
    results = [message for message in messages if message.get("role") == "tool"]
    functions = functions_of([_tool(tool) for tool in asked.tools or ()])
    choice: Any = None
    match asked.tool_choice:
        case {"type": "none"}:
            choice = "none"
        case {"type": "any"}:
            choice = "required"
        case {"type": "tool", "name": name}:
            choice = {"function": {"name": name}}
    return guide_for_tools(functions, choice, results or messages)


def _input(arguments: str) -> Any:
    """Return the input of a tool call, or an empty object if the token limit cut the arguments off."""
    try:
        return json.loads(arguments)
    except ValueError:
        return {}


def _stop_reason(choice: ChoiceText) -> str | None:
    if choice.call is not None and choice.finish_reason == "stop":
        return "tool_use"
    return _STOP_REASONS.get(choice.finish_reason or "")


def _usage(usage: Json) -> Json:
    return {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]}


def _system_text(system: str | list[Json] | None) -> str:
    if not isinstance(system, list):
        return system or ""
    texts = [block.get("text") or "" for block in system if block.get("type") == "text"]
    return "".join(text for text in texts if not text.startswith(_BILLING))


def _messages_of(turn: Json) -> Iterator[Json]:
    """Yield an Anthropic message as one or more chat messages."""
    if not isinstance(turn.get("content"), list):
        yield turn
        return
    blocks: list[Json] = [block for block in turn["content"] if isinstance(block, dict)]
    yield from (_result(block) for block in blocks if block.get("type") == "tool_result")
    parts = [_without_cache_control(block) for block in blocks if block.get("type") not in _OF_TOOLS_AND_THOUGHT]
    calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
    thoughts = "".join(str(block.get("thinking", "")) for block in blocks if block.get("type") == "thinking")
    if parts or turn.get("role") != "user":
        yield {"role": turn.get("role"), "content": parts, "tool_calls": calls, "reasoning": thoughts}


def _call(block: Json) -> Json:
    function = {"name": block.get("name") or "", "arguments": json.dumps(block.get("input") or {})}
    return {"id": block.get("id"), "type": "function", "function": function}


def _result(block: Json) -> Json:
    content = block.get("content")
    return {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": content or ""}


def _tool(tool: Json) -> Json:
    parameters = {**(tool.get("input_schema") or {})}
    parameters.setdefault("type", "object")
    names = ("name", "description", "strict", "defer_loading")
    return {"type": "function", "function": {name: tool.get(name) for name in names} | {"parameters": parameters}}


def _without_cache_control(block: Json) -> Json:
    return {name: value for name, value in block.items() if name != "cache_control"}
