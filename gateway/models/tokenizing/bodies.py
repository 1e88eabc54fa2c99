"""Parsers for the request bodies of each path, used for tokenization."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from gateway.models.tokenizing.asked import Asked
from gateway.models.tokenizing.chat_body import asked_of_chat
from gateway.models.tokenizing.completion_body import asked_of_completion
from gateway.models.tokenizing.exactness import Unknowable
from gateway.models.tokenizing.messages_body import asked_of_messages
from gateway.models.tokenizing.responses_body import asked_of_responses

_READERS: Mapping[str, Callable[[bytes], Asked]] = MappingProxyType(
    {
        "/v1/chat/completions": asked_of_chat,
        "/v1/completions": asked_of_completion,
        "/v1/messages": asked_of_messages,
        "/v1/responses": asked_of_responses,
    }
)


def asked_of(path: str, raw: bytes) -> Asked:
    """Return the part of the body *raw*, sent to *path*, that determines the prompt. O(bytes).

    Raises:
        Unknowable: if the tokens of the body cannot be determined.
    """
    reader = _READERS.get(path)
    if reader is None:
        raise Unknowable("endpoint")
    return reader(raw)
