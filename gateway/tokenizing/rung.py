"""The seam for whoever can tell the exact tokens of a prompt."""

from typing import Protocol

import msgspec

from gateway.tokenizing.exactness import Exact, NotExact


class RawPrompt(msgspec.Struct, frozen=True, gc=False):
    """A request of which nobody has read more than routing needs."""

    path: str
    """Of the endpoint."""
    body: bytes
    """As the caller sent it: well-formed JSON of that endpoint."""
    model: str
    """What the workers call it; the body may have another name."""


class Rung(Protocol):
    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        """The tokens of *prompt* as its engine will see them, or why they cannot be told. Raises nothing."""
        ...
