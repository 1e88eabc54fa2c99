"""Answers that a request decides: tool calls, JSON by a schema, one of several choices, the report of a tool's result.

A guide writes the whole text of an answer, and the engine gives it token by token like any other. It depends on the
prompt only, so that every worker answers the same. Of several sizes, the largest is written that fits the limit.
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
    """Beginning of a tool call, before its arguments."""

    id: str
    name: str
    characters: int
    """Number of characters of the answer's text before the arguments."""


@dataclass(frozen=True, slots=True)
class Script:
    """The text of an answer. *call*: the text is that of a tool call, as the chat template writes it."""

    text: str
    call: CallHead | None = None


class Guide(Protocol):
    """Decides an answer in place of the model."""

    def scripts(self, seed: bytes) -> Iterator[Script]:
        """Answers that are possible, the longest first; none where no value fits a schema."""
        ...


@dataclass(frozen=True, slots=True)
class Function:
    """A tool that can be called."""

    name: str
    parameters: Any
    """JSON schema of the arguments."""


@dataclass(frozen=True, slots=True)
class CallGuide:
    """One call of one of *functions*."""

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
    """The answer that *guide* decides, and its text; cut at *max_tokens* where even the shortest is longer.

    Raises:
        SchemaUnsupported: no value fits the schema.
    """
    seed = blake2b(prompt.packed, digest_size=16, salt=choice.to_bytes(4, "big")).digest()
    script, packed = None, b""
    for script in guide.scripts(seed):
        packed = _tokens_of(script.text) + END_OF_ANSWER
        if len(packed) <= max_tokens * TOKEN_BYTES:
            return Answer(TokenSequence(packed), "stop"), script
    if script is None:
        raise SchemaUnsupported("no value was found that fits the schema")
    return Answer(TokenSequence(packed[: max_tokens * TOKEN_BYTES]), "length"), script


JSON_OBJECT: Json = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
}
"""Stands for "any JSON object"."""


def _tokens_of(text: str) -> bytes:
    """The tokens that *text* is cut into where the chat template puts it."""
    return TokenSequence.from_text(_ANSWER_HEAD + text).packed[_HEAD_BYTES:]


def _values(schema: Any, seed: bytes) -> Iterator[Any]:
    for richness in _RICHNESS:
        with contextlib.suppress(SchemaUnsupported):
            yield value_for(schema, seed=seed, richness=richness)


def _written(value: Any) -> str:
    """Return *value* as the chat template writes arguments of calls; marks of the template never stand in a text."""
    return json.dumps(value, ensure_ascii=False).replace("<|", "\\u003c|")
