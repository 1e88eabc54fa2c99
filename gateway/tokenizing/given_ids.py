"""Prompts of ``/v1/completions`` that are token ids already."""

from cache_index.tokens import pack
from gateway.tokenizing.asked import AskedIds
from gateway.tokenizing.completion_body import asked_of_completion
from gateway.tokenizing.exactness import Exact, NotExact, Unknowable
from gateway.tokenizing.rung import RawPrompt


class GivenIds:
    """A `Rung` that needs no tokenizer and knows no texts."""

    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        """The ids that *prompt* brings. O(bytes)."""
        if prompt.path != "/v1/completions":
            return NotExact("unavailable")
        try:
            asked = asked_of_completion(prompt.body)
            return given(asked) if isinstance(asked, AskedIds) else NotExact("unavailable")
        except Unknowable as unknowable:
            return NotExact(unknowable.reason)


def given(asked: AskedIds) -> Exact:
    """The tokens of a request that brings them: of several prompts the first counts, and all are work.

    Raises:
        Unknowable: what it brings are no token ids.
    """
    try:
        packed = [pack(prompt) for prompt in asked.prompts]
    except (ValueError, TypeError):
        raise Unknowable("malformed") from None
    return Exact(b"".join(packed), len(asked.prompts[0]))
