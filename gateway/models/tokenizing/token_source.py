"""The seam behind which the exact tokens of a prompt are found."""

from typing import Protocol

import msgspec

from gateway.models.tokenizing.exactness import Exact, NotExact


class RawPrompt(msgspec.Struct, frozen=True, gc=False):
    """A request of which only the fields for routing have been read."""

    path: str
    """Path of the endpoint."""
    body: bytes
    """Body from the caller: well-formed JSON of that endpoint."""
    model: str
    """The workers' name of the model; the body may have another one."""


class TokenSource(Protocol):
    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        """Return the tokens of *prompt* as its engine will see them, or the reason why they are not known. Raises
        nothing.
        """
        ...
