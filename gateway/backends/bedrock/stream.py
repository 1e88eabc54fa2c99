"""The events of ConverseStream, as the chunks of an OpenAI chat completion.

1. The role goes out with the first thing worth reading, so that until then a failure can still move to another backend.
2. The finish chunk waits for the metadata event or the end: nothing but usage follows it.
3. ``[DONE]`` is said only to a stream whose ``messageStop`` came and whose bytes all made whole frames. A cut stream
   looks like a finished one on the wire.
"""

from typing import Any

import msgspec

from gateway.backends.bedrock.answer import finish_reason, usage
from gateway.backends.bedrock.frame import Event
from gateway.errors import ReplyBroken


class ChunkWriter:
    """Turns one event after the other into server-sent events."""

    def __init__(
        self, *, completion_id: str, created: int, model: str, includes_usage: bool, reasoning_field: str
    ) -> None:
        """*created* is in Unix seconds; *includes_usage* adds the usage chunk that ``stream_options`` asks for."""
        self._head = {"id": completion_id, "object": "chat.completion.chunk", "created": created, "model": model}
        self._includes_usage = includes_usage
        self._reasoning_field = reasoning_field
        self._has_role = False
        self._finish: str | None = None
        self._has_finish = False

    @property
    def has_stopped(self) -> bool:
        """``messageStop`` came: the answer is whole, only its usage may be missing."""
        return self._finish is not None

    def write(self, event: Event) -> bytes:
        """What the caller is told of *event*: often nothing, ``b""``.

        Raises:
            ReplyBroken: the model's output is not an answer to what was asked, or the event has not its usual shape.
        """
        match event.name:
            case "contentBlockDelta":
                return self._delta(event.payload.get("delta"))
            case "messageStop":
                self._finish = finish_reason(event.payload.get("stopReason"))
                return b""
            case "metadata":
                return self._metadata(event.payload.get("usage"))
            case _:  # messageStart, block borders, and whatever Bedrock adds later
                return b""

    def end(self, *, leftover: int) -> bytes:
        """The last bytes; *leftover* counts those that no whole frame has accounted for.

        Raises:
            ReplyBroken: the stream was cut.
        """
        if not self.has_stopped or leftover:
            raise ReplyBroken("Bedrock's stream was cut before its end")
        return self._finishing() + b"data: [DONE]\n\n"

    def _delta(self, delta: object) -> bytes:
        match delta:
            case {"text": str(text)}:
                return self._content("content", text)
            case {"reasoningContent": {"text": str(text)}}:
                return self._content(self._reasoning_field, text)
            case _:  # signatures, citations
                return b""

    def _content(self, field: str, text: str) -> bytes:
        """Empty text is passed over: some models open with an empty block before their reasoning."""
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

    def _choice(self, delta: dict[str, str], finish: str | None = None) -> bytes:
        return self._chunk({"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]})

    def _chunk(self, rest: dict[str, Any]) -> bytes:
        return b"data: " + msgspec.json.encode(self._head | rest) + b"\n\n"
