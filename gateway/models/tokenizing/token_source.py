"""Interface for sources of exact prompt tokens."""

from typing import Protocol

import msgspec

from gateway.models.tokenizing.exactness import Exact, NotExact


class RawPrompt(msgspec.Struct, frozen=True, gc=False):
    """Request whose body has been parsed only for routing."""

    path: str
    """Path of the endpoint to which the request was sent."""
    body: bytes
    """Body of the request, which is well-formed JSON for the endpoint."""
    model: str
    """Model name that workers use, which can differ from the name in the body."""


class TokenSource(Protocol):
    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        """Return the tokens of *prompt* as the engine sees them, or the reason why they are unknown. Never raises."""
        ...
