"""Embeddings, scores and rankings in the format of vLLM's pooling models (vllm/entrypoints/pooling).

1. Every number depends on the whole input and on nothing else.
2. The engine handles a pooled input as a prompt with a one-token answer, which is not returned.
"""

import base64
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any, Literal

import msgspec

from simulator.bodies import BodyReader, ChatPrompt, GenerationRequest, decode_body, prompts_of
from simulator.errors import ApiError
from simulator.generation import Incoming
from simulator.replies import ChoiceText, ReplyShape
from simulator.sse import Event, Json
from simulator.tokens import TokenSequence

DIMENSIONS = 64
"""Number of dimensions of an embedding, unless fewer dimensions are requested."""


class _EmbeddingsBody(msgspec.Struct, frozen=True, kw_only=True):
    model: str | None = None
    input: Any = None
    messages: list[dict[str, Any]] | None = None
    """Chat to embed instead of an input. The field is an extension of vLLM."""
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, msgspec.Meta(ge=1, le=DIMENSIONS)] | None = None


class _ScoreBody(msgspec.Struct, frozen=True, kw_only=True):
    """JSON body of a score request. Both of vLLM's names for each of the two inputs are accepted."""

    model: str | None = None
    text_1: str | list[str] | None = None
    text_2: str | list[str] | None = None
    queries: str | list[str] | None = None
    documents: str | list[str] | None = None


class _RerankBody(msgspec.Struct, frozen=True, kw_only=True):
    query: str
    documents: list[str | dict[str, Any]]
    model: str | None = None
    top_n: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Maximum number of results, or 0 to return results for all documents."""


@dataclass(frozen=True, slots=True)
class PooledShape:
    """Answer that lacks only the token usage. Its numbers were already computed from the input."""

    id: str
    write: Callable[[Json], Json]

    def begin(self) -> list[Event]:
        return []

    def opening(self, choice: ChoiceText, usage: Json | None) -> list[Event]:  # noqa: ARG002 - never streamed
        return []

    def token(self, choice: ChoiceText, usage: Json | None) -> list[Event]:  # noqa: ARG002 - never streamed
        return []

    def closing(self, choices: Sequence[ChoiceText], usage: Json, *, include_usage: bool) -> list[Event]:  # noqa: ARG002
        return []

    def failure(self, error: ApiError, body: Json) -> list[Event]:  # noqa: ARG002 - never streamed
        return []

    def body(self, choices: Sequence[ChoiceText], usage: Json) -> Json:  # noqa: ARG002 - there is no text
        tokens = usage["prompt_tokens"]
        return self.write({"prompt_tokens": tokens, "total_tokens": tokens})


@dataclass(frozen=True, slots=True)
class EmbeddingsEndpoint:
    reader: BodyReader

    def read(self, incoming: Incoming) -> tuple[GenerationRequest, ReplyShape]:
        asked = decode_body(incoming.json_body(), _EmbeddingsBody)
        self.reader.check_model(asked.model)
        if asked.messages is not None:
            prompts = [self.reader.chat_tokens(ChatPrompt(messages=asked.messages))]
        else:
            prompts = prompts_of(asked.input, source="input")
        reply_id = f"embd-{incoming.base_id}"

        def write(usage: Json) -> Json:
            vectors = [_vector(prompt, asked.dimensions or DIMENSIONS) for prompt in prompts]
            as_base64 = asked.encoding_format == "base64"
            return {
                "id": reply_id,
                "object": "list",
                "created": incoming.created,
                "model": self.reader.model,
                "data": [
                    {"index": index, "object": "embedding", "embedding": _packed(vector) if as_base64 else vector}
                    for index, vector in enumerate(vectors)
                ],
                "usage": usage | {"completion_tokens": 0, "prompt_tokens_details": None},
            }

        return _pooling_request(self.reader, prompts, source="input"), PooledShape(reply_id, write)


@dataclass(frozen=True, slots=True)
class ScoreEndpoint:
    reader: BodyReader

    def read(self, incoming: Incoming) -> tuple[GenerationRequest, ReplyShape]:
        asked = decode_body(incoming.json_body(), _ScoreBody)
        self.reader.check_model(asked.model)
        pairs = _pairs(_texts(asked.text_1, asked.queries, "text_1"), _texts(asked.text_2, asked.documents, "text_2"))
        reply_id = f"score-{incoming.base_id}"

        def write(usage: Json) -> Json:
            return {
                "id": reply_id,
                "object": "list",
                "created": incoming.created,
                "model": self.reader.model,
                "data": [
                    {"index": index, "object": "score", "score": _score(pair)} for index, pair in enumerate(pairs)
                ],
                "usage": usage | {"completion_tokens": 0, "prompt_tokens_details": None},
            }

        return _pooling_request(self.reader, pairs, source="text_1"), PooledShape(reply_id, write)


@dataclass(frozen=True, slots=True)
class RerankEndpoint:
    reader: BodyReader

    def read(self, incoming: Incoming) -> tuple[GenerationRequest, ReplyShape]:
        asked = decode_body(incoming.json_body(), _RerankBody)
        self.reader.check_model(asked.model)
        texts = [_document_text(document, number) for number, document in enumerate(asked.documents)]
        pairs = _pairs([asked.query], texts)
        reply_id = f"rerank-{incoming.base_id}"

        def write(usage: Json) -> Json:
            results: list[Json] = [
                {"index": index, "document": {"text": text, "multi_modal": None}, "relevance_score": _score(pair)}
                for index, (text, pair) in enumerate(zip(texts, pairs, strict=True))
            ]
            results.sort(key=lambda result: result["relevance_score"], reverse=True)
            top = results[: asked.top_n or len(results)]
            return {"id": reply_id, "model": self.reader.model, "usage": usage, "results": top}

        return _pooling_request(self.reader, pairs, source="documents"), PooledShape(reply_id, write)


def _pooling_request(reader: BodyReader, prompts: Sequence[TokenSequence], *, source: str) -> GenerationRequest:
    for prompt in prompts:
        reader.max_tokens(len(prompt), 1, source=source)
    return GenerationRequest(prompts=prompts, max_tokens=[1] * len(prompts), ignore_eos=True)


def _texts(given: str | list[str] | None, other: str | list[str] | None, field: str) -> list[str]:
    texts = given if given is not None else other
    if not texts:
        raise ApiError(400, f"{field}: must be a non-empty string or a non-empty list of strings", param=field)
    return [texts] if isinstance(texts, str) else texts


def _document_text(document: str | dict[str, Any], number: int) -> str:
    text = document.get("text") if isinstance(document, dict) else document
    if not isinstance(text, str):
        raise ApiError(400, f"documents[{number}].text: must be a string", param="documents")
    return text


def _pairs(firsts: list[str], seconds: list[str]) -> list[TokenSequence]:
    """Pair one text with each of several texts, or pair up the texts of two lists of equal length."""
    if len(firsts) == 1:
        firsts = firsts * len(seconds)
    if len(firsts) != len(seconds):
        raise ApiError(400, f"{len(firsts)} texts cannot be paired with {len(seconds)} texts", param="text_1")
    return [
        TokenSequence.from_text(f"<|im_start|>query\n{first}<|im_end|>\n{second}")
        for first, second in zip(firsts, seconds, strict=True)
    ]


def _score(pair: TokenSequence) -> float:
    """Return a made-up similarity score from 0 to 1."""
    return int.from_bytes(blake2b(pair.packed, digest_size=4).digest(), "big") / (2**32 - 1)


def _vector(prompt: TokenSequence, dimensions: int) -> list[float]:
    """Return a made-up vector of length 1."""
    digest = b"".join(
        blake2b(prompt.packed, digest_size=64, salt=number.to_bytes(4, "big")).digest()
        for number in range(DIMENSIONS * 2 // 64)
    )
    raw = struct.unpack(f"<{dimensions}h", digest[: 2 * dimensions])
    length = sum(number * number for number in raw) ** 0.5 or 1.0
    return [number / length for number in raw]


def _packed(vector: Sequence[float]) -> str:
    """Return the vector as Base64 of little-endian 32-bit floats, the format that OpenAI's SDK expects."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
