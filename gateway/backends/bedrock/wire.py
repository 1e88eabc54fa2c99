"""The seam of Bedrock's two APIs: Converse, and OpenAI's chat completions.

A wire turns a call into a `BedrockQuestion`, which knows what to send and how to read the answer. All of it is pure.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from gateway.backends.backend import Call
from gateway.backends.bedrock.errors import BedrockFault
from gateway.backends.bedrock.refusals import Unsupported


@dataclass(frozen=True, slots=True)
class Heading:
    """Fields that an answer and every chunk of it begin with."""

    completion_id: str
    """Used where Bedrock gives the answer no id of its own."""
    created: int
    """Unix seconds."""
    model: str
    """The name under which the caller asked."""
    reasoning_field: str
    """Field for the reasoning: ``reasoning_content`` or ``reasoning``."""


class Translator(Protocol):
    """The bytes of one streamed answer in, as the network cuts them; OpenAI's server-sent events out."""

    @property
    def awaits_usage(self) -> bool:
        """The caller has all of the answer; only the counts of tokens are still to come, if they do."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether everything has been received, so that `end` can be called."""
        ...

    def feed(self, data: bytes) -> None: ...

    def next(self) -> bytes | BedrockFault | None:
        """Return what the next whole event says, often ``b""``; None until there are more bytes.

        Raises:
            ReplyBroken: the bytes are damaged, or not an answer to what was asked.
        """
        ...

    def end(self) -> bytes:
        """The last bytes, ``[DONE]`` included, when the network has ended or need not be heard further.

        Raises:
            ReplyBroken: the answer was cut.
        """
        ...


class BedrockQuestion(Protocol):
    """Call in Bedrock's format, and how to read the answer."""

    @property
    def path(self) -> str:
        """Path to send it to, percent-encoded once."""
        ...

    @property
    def payload(self) -> dict[str, Any]: ...

    @property
    def streams(self) -> bool:
        """The answer comes as a stream. A caller may get one even so: made of the whole answer, where a model does not
        stream what is asked of it.
        """
        ...

    @property
    def content_type(self) -> str:
        """Content type of an answer that streams; any other is an error."""
        ...

    @property
    def dropped(self) -> tuple[str, ...]:
        """Names of the caller's fields that have no weight in the answer, sorted."""
        ...

    def answer(self, body: bytes, heading: Heading) -> bytes:
        """A whole answer as the caller wants it: the JSON of a chat completion, or the server-sent events of a stream.

        Raises:
            ReplyBroken: *body* is not an answer. Bedrock says 200 even to an unknown path, with an error for a body.
        """
        ...

    def translator(self, heading: Heading) -> Translator:
        """Return the translator of an answer that streams."""
        ...

    @property
    def max_tokens(self) -> int:
        """The output limit that it has."""
        ...

    def without(self, refused: Unsupported) -> "BedrockQuestion | None":
        """The same without a field that the model does not take; None if it would not be the same question, or the
        field is not in it.
        """
        ...

    def limited(self, max_tokens: int) -> "BedrockQuestion | None":
        """The same with a lower output limit; None if its own is not higher."""
        ...


class Wire(Protocol):
    def question(self, call: Call) -> BedrockQuestion:
        """*call*, a chat completion, as this model gets it.

        Raises:
            ClientError: it asks for what cannot be served.
        """
        ...
