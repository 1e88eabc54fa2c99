"""Interface of sources of exact prompt tokens."""

from typing import Protocol

import msgspec

from gateway.models.tokenizing.exactness import Exact, NotExact


class RawPrompt(msgspec.Struct, frozen=True, gc=False):
    """A request whose body is parsed only for routing."""

    path: str
    """Path of the endpoint that the request was sent to."""
    body: bytes
    """Body of the request: well-formed JSON for the endpoint."""
    model: str
    """Model name that workers use, which may differ from the name in the body."""


class TokenSource(Protocol):
    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        """Return the tokens of *prompt* as its engine sees them, or the reason why they are unknown. Never raises."""
        ...
