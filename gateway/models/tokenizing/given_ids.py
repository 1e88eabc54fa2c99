"""Exact tokens of ``/v1/completions`` requests whose prompts are already token ids."""

from cache_index.tokens import pack
from gateway.models.tokenizing.asked import AskedIds
from gateway.models.tokenizing.completion_body import asked_of_completion
from gateway.models.tokenizing.exactness import Exact, NotExact, Unknowable
from gateway.models.tokenizing.token_source import RawPrompt


class GivenIds:
    """Token source for prompts that are given as token ids. It does not tokenize texts."""

    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        """Return the token ids that *prompt* contains. O(bytes)."""
        if prompt.path != "/v1/completions":
            return NotExact("unavailable")
        try:
            asked = asked_of_completion(prompt.body)
            return given(asked) if isinstance(asked, AskedIds) else NotExact("unavailable")
        except Unknowable as unknowable:
            return NotExact(unknowable.reason)


def given(asked: AskedIds) -> Exact:
    """Return the token ids given in a request. If there are several prompts, only the first is exact, but all are
    counted.

    Raises:
        Unknowable: if the prompts are not valid token ids.
    """
    try:
        packed = [pack(prompt) for prompt in asked.prompts]
    except (ValueError, TypeError):
        raise Unknowable("malformed") from None
    return Exact(b"".join(packed), len(asked.prompts[0]))
