"""Interface to Bedrock's two chat APIs, Converse and OpenAI chat completions.

A wire converts a call to a `BedrockQuestion`, which knows the request to send and how to read its response. Wires
perform no I/O.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from gateway.backends.backend import Call
from gateway.backends.bedrock.errors import BedrockFault
from gateway.backends.bedrock.refusals import Unsupported


@dataclass(frozen=True, slots=True)
class Heading:
    """Values that appear in a response and in each of its chunks."""

    completion_id: str
    """Id of the completion, which is used if Bedrock does not provide an id."""
    created: int
    """Creation time of the response in Unix seconds."""
    model: str
    """Model name that the client used."""
    reasoning_field: str
    """Response field for reasoning text, ``reasoning_content`` or ``reasoning``."""


class Translator(Protocol):
    """Incremental converter of a streamed response, from network data to OpenAI's server-sent events."""

    @property
    def awaits_usage(self) -> bool:
        """Return whether the answer is complete and only the token usage might still arrive."""
        ...

    @property
    def is_over(self) -> bool:
        """Return whether everything has been received, so that `end` can be called."""
        ...

    def feed(self, data: bytes) -> None: ...

    def next(self) -> bytes | BedrockFault | None:
        """Return the server-sent events for the next complete event, often ``b""``, or None if more data is needed.

        Raises:
            ReplyBroken: if the data is corrupt or the model's output is malformed.
        """
        ...

    def end(self) -> bytes:
        """Return the last server-sent events, including ``[DONE]``. Call this method when the stream has ended or needs
        no more data.

        Raises:
            ReplyBroken: if the response is truncated.
        """
        ...


class BedrockQuestion(Protocol):
    """Client request in one of Bedrock's formats, with the functions that read the response."""

    @property
    def path(self) -> str:
        """Return the URL path of the request, which is percent-encoded once."""
        ...

    @property
    def payload(self) -> dict[str, Any]: ...

    @property
    def streams(self) -> bool:
        """Return whether Bedrock streams the response. If not, the client's stream is generated from the complete
        response.
        """
        ...

    @property
    def content_type(self) -> str:
        """Return the content type that a streamed response must have. Any other content type is an error."""
        ...

    @property
    def dropped(self) -> tuple[str, ...]:
        """Return the sorted names of the client's request fields that do not affect the response."""
        ...

    def answer(self, body: bytes, heading: Heading) -> bytes:
        """Convert the body *body* of a complete response to the client's format: a chat completion, or the server-sent
        events of a stream.

        Raises:
            ReplyBroken: if *body* is not a model response. Bedrock sends status 200 with an error body even for unknown
                paths.
        """
        ...

    def translator(self, heading: Heading) -> Translator:
        """Return a translator for the stream of a response."""
        ...

    @property
    def max_tokens(self) -> int:
        """Return the output limit of the request in tokens."""
        ...

    def without(self, refused: Unsupported) -> "BedrockQuestion | None":
        """Return a copy of the request without the unsupported field, or None if the field is absent or required."""
        ...

    def limited(self, max_tokens: int) -> "BedrockQuestion | None":
        """Return a copy with the output limit *max_tokens*, or None if the current limit is not higher."""
        ...


class Wire(Protocol):
    def question(self, call: Call) -> BedrockQuestion:
        """Convert *call*, which is a chat completion request, to a request in Bedrock's format.

        Raises:
            ClientError: if the request needs something that Bedrock does not support.
        """
        ...
