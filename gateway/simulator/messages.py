"""Anthropic's Messages API as vLLM has it (vllm/entrypoints/anthropic): a chat under other names.

1. `cache_control` is read by nobody: it never changes a prompt.
2. Usage counts the whole prompt as input, cached or not; of the cache vLLM says nothing here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from gateway.simulator.bodies import BodyReader, ChatPrompt, GenerationRequest, decode_body
from gateway.simulator.errors import ApiError
from gateway.simulator.exchange import Exchange
from gateway.simulator.generation import Incoming
from gateway.simulator.replies import ChoiceText, ReplyShape
from gateway.simulator.sse import Event, Json
from gateway.simulator.tokens import TokenSequence

_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens"}  # vLLM has none for abort


class _CountBody(msgspec.Struct, frozen=True, kw_only=True):
    messages: list[dict[str, Any]]
    model: str | None = None
    system: str | list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None


class _MessagesBody(_CountBody, frozen=True, kw_only=True):
    max_tokens: Annotated[int, msgspec.Meta(ge=1)]
    stream: bool | None = None


@dataclass(frozen=True, slots=True)
class MessagesEndpoint:
    reader: BodyReader

    def read(self, incoming: Incoming) -> tuple[GenerationRequest, ReplyShape]:
        asked = decode_body(incoming.json_body(), _MessagesBody)
        prompt = self._prompt(asked)
        limit = self.reader.max_tokens(len(prompt), asked.max_tokens, asked.max_tokens, source="messages")
        request = GenerationRequest(prompts=[prompt], max_tokens=[limit], streams=bool(asked.stream))
        return request, MessagesShape(f"chatcmpl-{incoming.base_id}", self.reader.model, input_tokens=len(prompt))

    async def count_tokens(self, exchange: Exchange) -> None:
        body = await exchange.body()
        exchange.require_json()
        tokens = len(self._prompt(decode_body(body, _CountBody)))
        await exchange.reply_json({"input_tokens": tokens, "context_management": {"original_input_tokens": tokens}})

    def _prompt(self, asked: _CountBody) -> TokenSequence:
        self.reader.check_model(asked.model)
        system = [{"role": "system", "content": _content(asked.system)}] if asked.system else []
        messages = [message | {"content": _content(message.get("content"))} for message in asked.messages]
        tools = [_tool(tool) for tool in asked.tools or ()]
        return self.reader.chat_tokens(ChatPrompt(messages=[*system, *messages], tools=tools))


@dataclass(frozen=True, slots=True)
class MessagesShape:
    id: str
    model: str
    input_tokens: int

    def begin(self) -> list[Event]:
        return []

    def opening(self, choice: ChoiceText, usage: Json | None) -> list[Event]:  # noqa: ARG002 - nothing is said yet
        usage_at_start = {"input_tokens": self.input_tokens, "output_tokens": 0}
        message = self._message([], None) | {"stop_sequence": None, "usage": usage_at_start}
        return [
            _event("message_start", message=message),
            _event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        ]

    def token(self, choice: ChoiceText, usage: Json | None) -> list[Event]:  # noqa: ARG002 - usage comes at the end
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
        content = [{"type": "text", "text": text}] if text else []
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


def _event(name: str, **fields: Any) -> Event:
    return Event({"type": name, **fields}, name=name)


def _stop_reason(choice: ChoiceText) -> str | None:
    return _STOP_REASONS.get(choice.finish_reason or "")


def _usage(usage: Json) -> Json:
    return {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]}


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [_without_cache_control(block) if isinstance(block, dict) else block for block in content]


def _tool(tool: Json) -> Json:
    function = {name: value for name, value in tool.items() if name not in ("input_schema", "cache_control", "type")}
    return {"type": "function", "function": function | {"parameters": tool.get("input_schema")}}


def _without_cache_control(block: Json) -> Json:
    return {name: value for name, value in block.items() if name != "cache_control"}
