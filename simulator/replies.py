"""Chat and completion responses with the same keys as in vLLM (vllm/entrypoints/openai/*/protocol.py)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from simulator.errors import ApiError
from simulator.logprobs import TokenLogprobs, chat_logprobs, completion_logprobs
from simulator.sse import DONE, Event, Json


def usage_json(*, prompt_tokens: int, completion_tokens: int, cached_tokens: int | None = None) -> Json:
    """Return the token usage as JSON, with *cached_tokens* in the details if given, as in vLLM's final usage."""
    details = None if cached_tokens is None else {"cached_tokens": cached_tokens}
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
        "prompt_tokens_details": details,
    }


@dataclass(frozen=True, slots=True)
class CallPart:
    """Piece of a tool call, or a whole tool call."""

    id: str
    name: str
    arguments: str
    """Piece of the tool call's arguments as JSON text."""
    is_first: bool

    @property
    def written(self) -> Json:
        """Return the tool call in the format of a chat message."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}

    @property
    def delta(self) -> Json:
        """Return the tool call in the format of a chat chunk. Only the first chunk has the id and the name."""
        return {"index": 0, **(self.written if self.is_first else {"function": {"arguments": self.arguments}})}


@dataclass(frozen=True, slots=True)
class ChoiceText:
    """Output of one choice: one token of a stream, or the whole output at once."""

    index: int
    text: str
    token_ids: Sequence[int] | None
    """Token ids of the output, or None if not requested."""
    prompt_token_ids: Sequence[int] | None
    """Token ids of the prompt, or None if not requested. In a stream, they come only with the first token."""
    finish_reason: str | None
    call: CallPart | None = None
    """Tool call in the output, or None if the output is text."""
    logprobs: Sequence[TokenLogprobs] | None = None
    """Log probabilities of the output tokens, or None if not requested."""
    stop_reason: str | None = None
    """Stop string that ended the output, or None."""


class ReplyShape(Protocol):
    """Format of the responses of one endpoint.

    A stream consists of one *begin*, an *opening* and *token* calls for each choice, and one *closing*. A *failure* may
    end it at any point.
    """

    @property
    def id(self) -> str: ...

    def begin(self) -> list[Event]:
        """Return the first events of a stream, which come before any event of the engine."""
        ...

    def opening(self, choice: ChoiceText, usage: Json | None) -> list[Event]:
        """Return the events of a choice that come before its first token, if any."""
        ...

    def token(self, choice: ChoiceText, usage: Json | None) -> list[Event]:
        """Return the stream events for one token. *usage* is the choice's usage so far, if requested for each chunk."""
        ...

    def closing(self, choices: Sequence[ChoiceText], usage: Json, *, include_usage: bool) -> list[Event]:
        """Return the last events of a stream. *choices* contain the whole output."""
        ...

    def failure(self, error: ApiError, body: Json) -> list[Event]:
        """Return the last events of a stream that has failed. *body* is the error in the engine's format."""
        ...

    def body(self, choices: Sequence[ChoiceText], usage: Json) -> Any:
        """Return the body of an answer that is not streamed."""
        ...


@dataclass(frozen=True, slots=True)
class ChatShape:
    id: str
    created: int
    """Creation time of the answer in Unix seconds."""
    model: str
    top_logprobs: int = 0

    def begin(self) -> list[Event]:
        return []

    def opening(self, choice: ChoiceText, usage: Json | None) -> list[Event]:
        delta = {"role": "assistant", "content": ""}
        opening = {"index": choice.index, "delta": delta, "logprobs": None, "finish_reason": None}
        return [Event(self._chunk([opening], usage, prompt_token_ids=_listed(choice.prompt_token_ids)))]

    def token(self, choice: ChoiceText, usage: Json | None) -> list[Event]:
        delta: Json = {"content": choice.text}
        if choice.call is not None:
            delta = {"tool_calls": [choice.call.delta]}
        written: Json = {
            "index": choice.index,
            "delta": delta,
            "logprobs": chat_logprobs(choice.logprobs, self.top_logprobs),
            "finish_reason": _chat_finish(choice),
        }
        if choice.finish_reason is not None:
            written["stop_reason"] = choice.stop_reason
        written["token_ids"] = _listed(choice.token_ids)
        return [Event(self._chunk([written], usage))]

    def closing(self, choices: Sequence[ChoiceText], usage: Json, *, include_usage: bool) -> list[Event]:  # noqa: ARG002
        return [Event(self._chunk([], usage)), DONE] if include_usage else [DONE]

    def failure(self, error: ApiError, body: Json) -> list[Event]:  # noqa: ARG002 - the body says it all
        return [Event(body), DONE]

    def body(self, choices: Sequence[ChoiceText], usage: Json) -> Json:
        return {
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [self._choice(choice) for choice in choices],
            "service_tier": None,
            "system_fingerprint": None,
            "usage": usage,
            "prompt_logprobs": None,
            "prompt_token_ids": _listed(choices[0].prompt_token_ids),
            "kv_transfer_params": None,
        }

    def _choice(self, choice: ChoiceText) -> Json:
        return {
            "index": choice.index,
            "message": {
                "role": "assistant",
                "content": choice.text if choice.call is None else None,
                "refusal": None,
                "annotations": None,
                "audio": None,
                "function_call": None,
                "tool_calls": [] if choice.call is None else [choice.call.written],
            },
            "logprobs": chat_logprobs(choice.logprobs, self.top_logprobs),
            "finish_reason": _chat_finish(choice),
            "stop_reason": choice.stop_reason,
            "token_ids": _listed(choice.token_ids),
        }

    def _chunk(self, choices: list[Json], usage: Json | None, **extra: Any) -> Json:
        chunk: Json = {
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
            **extra,
        }
        if usage is not None:
            chunk["usage"] = usage
        return chunk


@dataclass(frozen=True, slots=True)
class CompletionShape:
    id: str
    created: int
    """Creation time of the completion in Unix seconds."""
    model: str
    top_logprobs: int = 0

    def begin(self) -> list[Event]:
        return []

    def opening(self, choice: ChoiceText, usage: Json | None) -> list[Event]:  # noqa: ARG002 - a completion has no opening
        return []

    def token(self, choice: ChoiceText, usage: Json | None) -> list[Event]:
        return [Event(self._frame([self._choice(choice)], usage))]

    def closing(self, choices: Sequence[ChoiceText], usage: Json, *, include_usage: bool) -> list[Event]:  # noqa: ARG002
        return [Event(self._frame([], usage)), DONE] if include_usage else [DONE]

    def failure(self, error: ApiError, body: Json) -> list[Event]:  # noqa: ARG002 - the body says it all
        return [Event(body), DONE]

    def body(self, choices: Sequence[ChoiceText], usage: Json) -> Json:
        written = [self._choice(choice) | {"prompt_logprobs": None} for choice in choices]
        return self._frame(written, usage) | {"kv_transfer_params": None}

    def _choice(self, choice: ChoiceText) -> Json:
        return {
            "index": choice.index,
            "text": choice.text,
            "logprobs": completion_logprobs(choice.logprobs, self.top_logprobs),
            "finish_reason": choice.finish_reason,
            "stop_reason": choice.stop_reason,
            "prompt_token_ids": _listed(choice.prompt_token_ids),
            "token_ids": _listed(choice.token_ids),
        }

    def _frame(self, choices: list[Json], usage: Json | None) -> Json:
        return {
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": choices,
            "usage": usage,
        }


def _chat_finish(choice: ChoiceText) -> str | None:
    """Return the finish reason of a chat, which is "tool_calls" for a complete tool call."""
    is_called = choice.call is not None and choice.finish_reason == "stop"
    return "tool_calls" if is_called else choice.finish_reason


def _listed(ids: Sequence[int] | None) -> list[int] | None:
    return None if ids is None else list(ids)
