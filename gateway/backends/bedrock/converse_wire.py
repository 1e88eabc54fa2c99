"""Requests and responses of Converse and ConverseStream, the Bedrock APIs that all chat models support."""

from dataclasses import dataclass, replace
from typing import Any

from gateway.backends.backend import Call
from gateway.backends.bedrock.answer import Terms, as_events, mended, read_answer, to_completion
from gateway.backends.bedrock.aws import FrameParser
from gateway.backends.bedrock.endpoint import model_segment
from gateway.backends.bedrock.errors import BedrockFault
from gateway.backends.bedrock.family import family_of
from gateway.backends.bedrock.frame import StreamEvent, read_frame
from gateway.backends.bedrock.refusals import Unsupported
from gateway.backends.bedrock.request import ConverseRequest, to_converse
from gateway.backends.bedrock.stream import ChunkWriter
from gateway.backends.bedrock.wire import Heading
from gateway.protocol.errors import ReplyBroken


@dataclass(frozen=True, slots=True)
class ConverseQuestion:
    """Request to Converse. Implements `gateway.backends.bedrock.wire.Question`."""

    request: ConverseRequest
    segment: str
    """Model id, percent-encoded as one segment of the URL path."""
    streams: bool
    replays: bool = False
    """Whether the client's stream is generated from a complete response, because Bedrock does not stream this request.
    """

    content_type = "application/vnd.amazon.eventstream"

    @property
    def path(self) -> str:
        return f"/model/{self.segment}/{'converse-stream' if self.streams else 'converse'}"

    @property
    def payload(self) -> dict[str, Any]:
        return self.request.payload

    @property
    def dropped(self) -> tuple[str, ...]:
        return self.request.dropped

    def answer(self, body: bytes, heading: Heading) -> bytes:
        answer = read_answer(body)
        if self.request.mends_json:
            answer = mended(answer, self.request.schema)
        if not self.replays:
            return to_completion(answer, heading, self._terms)
        writer = self._writer(heading)
        written = [writer.write(event) for event in as_events(answer)]
        return b"".join([*written, writer.end(leftover=0)])

    def translator(self, heading: Heading) -> "ConverseTranslator":
        return ConverseTranslator(self._writer(heading))

    @property
    def max_tokens(self) -> int:
        return self.request.max_tokens

    def without(self, refused: Unsupported) -> "ConverseQuestion | None":
        request = self.request.without(refused)
        if request is None:
            return None
        replays = self.replays or (self.streams and request.mends_json)
        return replace(self, request=request, streams=self.streams and not replays, replays=replays)

    def limited(self, max_tokens: int) -> "ConverseQuestion | None":
        request = self.request.limited(max_tokens)
        return None if request is None else replace(self, request=request)

    @property
    def _terms(self) -> Terms:
        request = self.request
        return Terms(
            original=request.names.original,
            unwraps_tool=request.unwraps_tool,
            stops=request.stops,
            inline_reasoning=request.inline_reasoning,
        )

    def _writer(self, heading: Heading) -> ChunkWriter:
        return ChunkWriter(heading, terms=self._terms, includes_usage=self.request.wants_usage)


class ConverseWire:
    """Builder of requests to a model through Converse. Implements `gateway.backends.bedrock.wire.Wire`."""

    def __init__(
        self,
        model_id: str,
        *,
        default_max_tokens: int,
        max_output_tokens: int | None = None,
        context_tokens: int | None = None,
        family: str = "auto",
    ) -> None:
        """Use the rules of the model family named *family*, which ``auto`` derives from *model_id*.

        Raises:
            ValueError: if *model_id* cannot be part of a URL path or *family* is unknown.
        """
        self._segment = model_segment(model_id)
        self._family = family_of(model_id, family)
        self._default_max_tokens = default_max_tokens
        self._max_output_tokens = max_output_tokens
        self._context_tokens = context_tokens

    def question(self, call: Call) -> ConverseQuestion:
        request = to_converse(
            call.body,
            default_max_tokens=self._default_max_tokens,
            max_tokens_limit=self._max_output_tokens,
            context_tokens=self._context_tokens,
            family=self._family,
        )
        replays = call.streams and request.replays_stream
        if call.guardrail is not None:
            streams = call.streams and not replays
            request.payload["guardrailConfig"] = _guardrail_config(call.guardrail, streams=streams)
        return ConverseQuestion(request, self._segment, streams=call.streams and not replays, replays=replays)


def _guardrail_config(guardrail: tuple[str, str], *, streams: bool) -> dict[str, str]:
    """Return the guardrail configuration. Bedrock checks streams before any text is sent, because sent text cannot be
    withdrawn.
    """
    guardrail_id, version = guardrail
    config = {"guardrailIdentifier": guardrail_id, "guardrailVersion": version}
    return {**config, "streamProcessingMode": "sync"} if streams else config


class ConverseTranslator:
    """Translator from ConverseStream frames to OpenAI chunks. Implements `gateway.backends.bedrock.wire.Translator`."""

    def __init__(self, writer: ChunkWriter) -> None:
        self._frames = FrameParser()
        self._writer = writer
        self._is_over = False

    @property
    def awaits_usage(self) -> bool:
        """Return whether only the token usage is missing. While a frame is incomplete, more data must arrive first."""
        return self._writer.was_stopped or (self._writer.has_stopped and not self._frames.leftover)

    @property
    def is_over(self) -> bool:
        """Return whether Bedrock failed after a stop string had already completed the response."""
        return self._is_over

    def feed(self, data: bytes) -> None:
        self._frames.feed(data)

    def next(self) -> bytes | BedrockFault | None:
        try:
            read = self._read()
        except ReplyBroken:
            if not self._writer.was_stopped:
                raise
            self._is_over = True
            return b""
        if isinstance(read, BedrockFault) and self._writer.was_stopped:
            self._is_over = True
            return b""
        return self._writer.write(read) if isinstance(read, StreamEvent) else read

    def end(self) -> bytes:
        return self._writer.end(leftover=self._frames.leftover)

    def _read(self) -> StreamEvent | BedrockFault | None:
        frame = self._frames.next()
        return None if frame is None else read_frame(frame)
