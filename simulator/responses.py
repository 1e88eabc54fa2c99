"""OpenAI's Responses API as in vLLM (vllm/entrypoints/openai/responses), with the responses that one worker stores.

1. A response is stored in the memory of the worker that generated it. Other workers return 404 for its id.
2. A request with `previous_response_id` continues a conversation: the stored messages and the stored answer come before
   the new input.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Annotated, Any
from uuid import uuid4

import msgspec

from simulator.bodies import BodyReader, ChatPrompt, GenerationRequest, decode_body
from simulator.errors import ApiError
from simulator.exchange import HttpExchange
from simulator.generation import Incoming
from simulator.guided_fields import functions_of, guide_for_format, guide_for_tools
from simulator.guides import CallGuide, Guide
from simulator.replies import CallPart, ChoiceText, ReplyShape
from simulator.sse import Event, Json

_STATUS = {"stop": "completed", "length": "incomplete", "abort": "cancelled"}


class _ResponsesBody(msgspec.Struct, frozen=True, kw_only=True):
    input: str | list[dict[str, Any]]
    model: str | None = None
    instructions: str | None = None
    max_output_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    previous_response_id: str | None = None
    tools: list[dict[str, Any]] | None = None
    metadata: dict[str, Any] | None = None
    store: bool | None = None
    stream: bool | None = None
    background: bool | None = None
    cache_salt: str | None = None
    tool_choice: Any = None
    text: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class KeptResponse:
    body: Json
    messages: Sequence[Json]
    """Messages of the conversation including the answer, without the instructions."""


class ResponseStore:
    """Store of the last *limit* responses. The store of vLLM has no limit, and vLLM logs a warning about that."""

    def __init__(self, limit: int = 1000) -> None:
        self._limit = limit
        self._kept: OrderedDict[str, KeptResponse] = OrderedDict()

    def keep(self, response: KeptResponse) -> None:
        self._kept[response.body["id"]] = response
        while len(self._kept) > self._limit:
            self._kept.popitem(last=False)

    def find(self, response_id: str) -> KeptResponse:
        """Return a stored response. Raises `ApiError` 404 if the response is not stored."""
        kept = self._kept.get(response_id)
        if kept is None:
            message = f"Response with id '{response_id}' not found."
            raise ApiError(404, message, param="response_id", kind="invalid_request_error")
        return kept


@dataclass(frozen=True, slots=True)
class ResponsesEndpoint:
    reader: BodyReader
    store: ResponseStore = field(default_factory=ResponseStore)

    def read(self, incoming: Incoming) -> tuple[GenerationRequest, ReplyShape]:
        asked = decode_body(incoming.json_body(), _ResponsesBody)
        adapter = self.reader.adapter(asked.model)
        if asked.background:
            raise ApiError(400, "background: not supported by the simulator", param="background")
        messages = [*self._history(asked), *_input_messages(asked.input)]
        instructions = [{"role": "system", "content": asked.instructions}] if asked.instructions else []
        tools = [_chat_tool(tool) for tool in asked.tools or ()]
        prompt = self.reader.chat_tokens(ChatPrompt(messages=[*instructions, *messages], tools=tools))
        limit = self.reader.max_tokens(len(prompt), asked.max_output_tokens, source="input")
        request = GenerationRequest(
            prompts=[prompt],
            max_tokens=[limit],
            adapter=adapter,
            cache_salt=asked.cache_salt,
            streams=bool(asked.stream),
            guide=_guide(asked, messages, tools),
        )
        head = _head(asked, incoming, model=adapter or self.reader.model, max_output_tokens=limit)
        return request, ResponsesShape(head, messages, self.store if asked.store is not False else None)

    async def show(self, exchange: HttpExchange) -> None:
        await exchange.reply_json(self.store.find(exchange.named_in_path).body)

    async def cancel(self, exchange: HttpExchange) -> None:
        """Reject the cancellation, because only background responses can be canceled."""
        self.store.find(exchange.named_in_path)
        raise ApiError(400, "Cannot cancel a synchronous response.", kind="invalid_request_error")

    def _history(self, asked: _ResponsesBody) -> Sequence[Json]:
        return self.store.find(asked.previous_response_id).messages if asked.previous_response_id else ()


@dataclass(slots=True)
class ResponsesShape:
    """Format of an answer in the Responses API. *store* keeps the complete answer, or is None if it is not stored."""

    head: Json
    messages: Sequence[Json]
    store: ResponseStore | None
    _sequence: "count[int]" = field(default_factory=count)

    @property
    def id(self) -> str:
        return str(self.head["id"])

    @property
    def _item_id(self) -> str:
        return f"msg_{self.id.removeprefix('resp_')}"

    @property
    def _place(self) -> Json:
        """Return the position of the only text in a response."""
        return {"item_id": self._item_id, "output_index": 0, "content_index": 0}

    def begin(self) -> list[Event]:
        response = self.head | {"status": "in_progress", "output": [], "usage": None}
        return [
            self._event("response.created", response=response),
            self._event("response.in_progress", response=response),
        ]

    def opening(self, choice: ChoiceText, usage: Json | None) -> list[Event]:  # noqa: ARG002 - usage comes at the end
        if choice.call is not None:
            item = self._call_item(choice.call, status="in_progress") | {"arguments": ""}
            return [self._event("response.output_item.added", output_index=0, item=item)]
        item = self._item("", status="in_progress") | {"content": []}
        return [
            self._event("response.output_item.added", output_index=0, item=item),
            self._event("response.content_part.added", **self._place, part=_text_part("")),
        ]

    def token(self, choice: ChoiceText, usage: Json | None) -> list[Event]:  # noqa: ARG002 - usage comes at the end
        if choice.call is not None and choice.call.arguments:
            place = {"item_id": self._call_id, "output_index": 0}
            return [self._event("response.function_call_arguments.delta", **place, delta=choice.call.arguments)]
        if not choice.text:
            return []
        return [self._event("response.output_text.delta", **self._place, delta=choice.text, logprobs=[])]

    def closing(self, choices: Sequence[ChoiceText], usage: Json, *, include_usage: bool) -> list[Event]:  # noqa: ARG002
        body = self.body(choices, usage)
        text, call = choices[0].text, choices[0].call
        if call is not None:
            reported = {"item_id": self._call_id, "output_index": 0, "name": call.name, "arguments": call.arguments}
            return [
                self._event("response.function_call_arguments.done", **reported),
                self._event("response.output_item.done", output_index=0, item=body["output"][0]),
                self._event("response.completed", response=body),
            ]
        return [
            self._event("response.output_text.done", **self._place, text=text, logprobs=[]),
            self._event("response.content_part.done", **self._place, part=_text_part(text)),
            self._event("response.output_item.done", output_index=0, item=body["output"][0]),
            self._event("response.completed", response=body),
        ]

    def failure(self, error: ApiError, body: Json) -> list[Event]:  # noqa: ARG002 - the API has an event of its own
        return [self._event("error", code=str(error.status), message=error.message, param=error.param)]

    def body(self, choices: Sequence[ChoiceText], usage: Json) -> Json:
        """Return the complete response and store it."""
        text = choices[0].text
        status = _STATUS[choices[0].finish_reason or "abort"]
        details = {"reason": "max_output_tokens"} if status == "incomplete" else None
        item_status = "completed" if status == "completed" else "incomplete"
        call = choices[0].call
        output = [self._item(text, status=item_status) if call is None else self._call_item(call, status=item_status)]
        said: Json = {"content": text} if call is None else {"content": None, "tool_calls": [call.written]}
        body = self.head | {
            "status": status,
            "incomplete_details": details,
            "output": output,
            "usage": _usage(usage),
        }
        if self.store is not None:
            self.store.keep(KeptResponse(body, [*self.messages, {"role": "assistant", **said}]))
        return body

    def _item(self, text: str, *, status: str) -> Json:
        return {
            "id": self._item_id,
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": [_text_part(text)],
        }

    @property
    def _call_id(self) -> str:
        return f"fc_{self.id.removeprefix('resp_')}"

    def _call_item(self, call: CallPart, *, status: str) -> Json:
        return {
            "id": self._call_id,
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
            "status": status,
        }

    def _event(self, name: str, /, **fields: Any) -> Event:
        return Event({"type": name, "sequence_number": next(self._sequence), **fields}, name=name)


def _guide(asked: _ResponsesBody, messages: Sequence[Json], tools: Sequence[Json]) -> Guide | None:
    """Return the guide for the tools of a request or for its text format."""
    choice = asked.tool_choice
    if isinstance(choice, dict) and choice.get("type") == "function":
        choice = {"function": {"name": choice.get("name")}}
    guide = guide_for_tools(functions_of(tools), choice, messages)
    wanted = guide_for_format((asked.text or {}).get("format"), None, None, None)
    return guide if wanted is None or isinstance(guide, CallGuide) else wanted


def _head(asked: _ResponsesBody, incoming: Incoming, *, model: str, max_output_tokens: int) -> Json:
    """Return the fields that describe the request. They are the same in all events of a response."""
    return {
        "id": f"resp_{uuid4().hex}",
        "object": "response",
        "created_at": incoming.created,
        "model": model,
        "instructions": asked.instructions,
        "metadata": asked.metadata,
        "previous_response_id": asked.previous_response_id,
        "max_output_tokens": max_output_tokens,
        "tools": asked.tools or [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "top_p": 1.0,
        "background": False,
        "service_tier": "auto",
        "truncation": "disabled",
        "incomplete_details": None,
    }


def _input_messages(given: str | list[Json]) -> list[Json]:
    """Convert input items to chat messages. Consecutive assistant items become one message."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    messages: list[Json] = []
    for item in given:
        _add_item(messages, item)
    return messages


def _add_item(messages: list[Json], item: Json) -> None:
    last = messages[-1] if messages and messages[-1]["role"] == "assistant" else None
    message = _message(item)
    if last is None or message["role"] != "assistant":
        messages.append(message)
    elif "tool_calls" in message:
        last["tool_calls"] = [*last.get("tool_calls", ()), *message["tool_calls"]]
    elif any(last.get(name) is not None for name in message if name != "role"):
        messages.append(message)
    else:
        last.update(message)


def _message(item: Json) -> Json:
    """Convert a single input item to a chat message. An item of unknown type keeps all its content."""
    if "role" in item:
        return {"role": item["role"], "content": item.get("content")}
    match item.get("type"):
        case "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            return {"role": "assistant", "tool_calls": [{"id": item.get("call_id"), "function": function}]}
        case "function_call_output":
            return {"role": "tool", "content": item.get("output"), "tool_call_id": item.get("call_id")}
        case "reasoning":
            reported = [*(item.get("content") or ()), *(item.get("summary") or ())]
            return {"role": "assistant", "reasoning": next((part.get("text") for part in reported), "")}
    return {"role": "assistant", "content": [item]}


def _chat_tool(tool: Json) -> Json:
    """Convert a tool to the format of the chat API, in which an object wraps the tool's fields."""
    if tool.get("type") != "function":
        return tool
    return {"type": "function", "function": {name: value for name, value in tool.items() if name != "type"}}


def _text_part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": None}


def _usage(usage: Json) -> Json:
    details = usage["prompt_tokens_details"]
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": details["cached_tokens"] if details else 0},
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage["total_tokens"],
    }
