"""Answers that the request determines: tool calls, JSON for a schema, one of several choices, or a tool result.

A guide writes the whole text of an answer, and the engine returns the text token by token like any other answer. The
text depends on the prompt only, so all workers give the same answer. The guide writes the largest variant that fits the
token limit.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol

from simulator.answers import Answer
from simulator.schema_values import SchemaUnsupported, value_for
from simulator.sse import Json
from simulator.tokens import END_OF_ANSWER, TOKEN_BYTES, TokenSequence

_RICHNESS = (2, 1, 0)
_ANSWER_HEAD = "<|im_start|>assistant\n"
_HEAD_BYTES = len(TokenSequence.from_text(_ANSWER_HEAD).packed)


@dataclass(frozen=True, slots=True)
class CallHead:
    """Beginning of a tool call, up to its arguments."""

    id: str
    name: str
    characters: int
    """Number of characters of the answer before the arguments of the tool call."""


@dataclass(frozen=True, slots=True)
class Script:
    """Text of an answer. If *call* is given, the text is a tool call in the format of the chat template."""

    text: str
    call: CallHead | None = None


class Guide(Protocol):
    """Interface of guides, which determine an answer in place of the model."""

    def scripts(self, seed: bytes) -> Iterator[Script]:
        """Yield the possible answers, longest first. Yield nothing if no value satisfies the schema."""
        ...


@dataclass(frozen=True, slots=True)
class Function:
    """Function that the model can call as a tool."""

    name: str
    parameters: Any
    """JSON schema of the function's arguments."""


@dataclass(frozen=True, slots=True)
class CallGuide:
    """Guide for an answer that calls one of *functions*."""

    functions: Sequence[Function]

    def scripts(self, seed: bytes) -> Iterator[Script]:
        function = self.functions[int.from_bytes(seed[:8], "big") % len(self.functions)]
        call_id = f"chatcmpl-tool-{seed.hex()[:16]}"
        head = f"\n<tool_call>{call_id} {function.name} "
        schema = function.parameters
        if not isinstance(schema, dict) or not schema:
            schema = {"type": "object"}
        for value in _values(schema, seed):
            yield Script(head + _written(value), CallHead(call_id, function.name, len(head)))


@dataclass(frozen=True, slots=True)
class JsonGuide:
    schema: Any

    def scripts(self, seed: bytes) -> Iterator[Script]:
        for value in _values(self.schema, seed):
            yield Script(_written(value))


@dataclass(frozen=True, slots=True)
class ChoiceGuide:
    options: Sequence[str]

    def scripts(self, seed: bytes) -> Iterator[Script]:
        yield Script(self.options[int.from_bytes(seed[:8], "big") % len(self.options)])


@dataclass(frozen=True, slots=True)
class TextGuide:
    text: str

    def scripts(self, seed: bytes) -> Iterator[Script]:  # noqa: ARG002 - there is one
        yield Script(self.text)


def guided_answer(guide: Guide, prompt: TokenSequence, *, max_tokens: int, choice: int) -> tuple[Answer, Script]:
    """Return the answer that *guide* determines, and its text. The answer is cut at *max_tokens* if even the shortest
    one is longer.

    Raises:
        SchemaUnsupported: if no value satisfies the schema.
    """
    seed = blake2b(prompt.packed, digest_size=16, salt=choice.to_bytes(4, "big")).digest()
    script, packed = None, b""
    for script in guide.scripts(seed):
        packed = _tokens_of(script.text) + END_OF_ANSWER
        if len(packed) <= max_tokens * TOKEN_BYTES:
            return Answer(TokenSequence(packed), "stop"), script
    if script is None:
        raise SchemaUnsupported("no value was found that satisfies the schema")
    return Answer(TokenSequence(packed[: max_tokens * TOKEN_BYTES]), "length"), script


JSON_OBJECT: Json = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
}
"""Default schema for requests that accept any JSON object."""


def _tokens_of(text: str) -> bytes:
    """Return the tokens of *text* at the position where the chat template would insert the text."""
    return TokenSequence.from_text(_ANSWER_HEAD + text).packed[_HEAD_BYTES:]


def _values(schema: Any, seed: bytes) -> Iterator[Any]:
    for richness in _RICHNESS:
        with contextlib.suppress(SchemaUnsupported):
            yield value_for(schema, seed=seed, richness=richness)


def _written(value: Any) -> str:
    """Return *value* in the chat template's format for tool call arguments, without template marks."""
    return json.dumps(value, ensure_ascii=False).replace("<|", "\\u003c|")
