"""Endpoint /v1/audio/transcriptions as in vLLM (vllm/entrypoints/openai/speech_to_text), from form to text.

The text depends on every byte of the file, and on the fields `language` and `prompt`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import ceil

from simulator.bodies import BodyReader, GenerationRequest
from simulator.errors import ApiError
from simulator.generation import Incoming
from simulator.multipart import read_form
from simulator.replies import ChoiceText, ReplyShape
from simulator.sse import DONE, Event, Json
from simulator.tokens import TokenSequence

_BYTES_PER_S = 32_000  # 16 kHz mono with 16 bits, what Whisper is fed with
_MAX_TOKENS = 448  # Whisper's
_TRUE = (b"true", b"True", b"1")


@dataclass(frozen=True, slots=True)
class TranscriptionEndpoint:
    reader: BodyReader

    def read(self, incoming: Incoming) -> tuple[GenerationRequest, ReplyShape]:
        form = read_form(incoming.body, incoming.content_type)
        file = form.get("file")
        if not file:
            raise ApiError(400, "file: required, must not be empty", param="file")
        self.reader.check_model(form["model"].decode("utf-8", "replace") if "model" in form else None)
        answer_format = form.get("response_format", b"json").decode("utf-8", "replace")
        if answer_format != "json":
            raise ApiError(
                400, f"response_format: the simulator supports only json, got {answer_format}", param="response_format"
            )
        prompt = _prompt(file, form.get("language", b""), form.get("prompt", b""))
        limit = min(_MAX_TOKENS, self.reader.max_tokens(len(prompt), None, source="file"))
        request = GenerationRequest(
            prompts=[prompt],
            max_tokens=[limit],
            streams=form.get("stream") in _TRUE,
            include_usage=form.get("stream_include_usage") in _TRUE,
        )
        shape = TranscriptionShape(
            f"trsc-{incoming.base_id}", incoming.created, self.reader.model, seconds=ceil(len(file) / _BYTES_PER_S)
        )
        return request, shape


@dataclass(frozen=True, slots=True)
class TranscriptionShape:
    id: str
    created: int
    """Creation time of the transcription in Unix seconds."""
    model: str
    seconds: int
    """Length of the audio in seconds, for which the caller is billed."""

    def begin(self) -> list[Event]:
        return []

    def opening(self, choice: ChoiceText, usage: Json | None) -> list[Event]:  # noqa: ARG002 - a transcription has no opening
        return []

    def token(self, choice: ChoiceText, usage: Json | None) -> list[Event]:  # noqa: ARG002 - usage comes at the end
        delta = {"delta": {"content": choice.text}, "finish_reason": choice.finish_reason, "stop_reason": None}
        return [Event(self._chunk([delta]))]

    def closing(self, choices: Sequence[ChoiceText], usage: Json, *, include_usage: bool) -> list[Event]:  # noqa: ARG002
        return [Event(self._chunk([]) | {"usage": usage}), DONE] if include_usage else [DONE]

    def failure(self, error: ApiError, body: Json) -> list[Event]:  # noqa: ARG002 - the body says it all
        return [Event(body), DONE]

    def body(self, choices: Sequence[ChoiceText], usage: Json) -> Json:  # noqa: ARG002 - audio is billed by its length
        return {"text": choices[0].text, "usage": {"type": "duration", "seconds": self.seconds}}

    def _chunk(self, choices: list[Json]) -> Json:
        return {
            "id": self.id,
            "object": "transcription.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }


def _prompt(file: bytes, language: bytes, hint: bytes) -> TokenSequence:
    """Return the prompt of a transcription: sixteen one-byte tokens for the audio, followed by the caller's hint."""
    heard = blake2b(file, digest_size=16, key=blake2b(language, digest_size=16).digest()).digest()
    return TokenSequence.from_ids(heard) + TokenSequence.from_text(hint.decode("utf-8", "replace"))
