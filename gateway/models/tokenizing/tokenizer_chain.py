"""Chain of sources of exact prompt tokens, which are tried in order."""

from collections.abc import Sequence

from gateway.models.tokenizing.exactness import Exact, NotExact
from gateway.models.tokenizing.token_source import RawPrompt, TokenSource


class TokenizerChain:
    """Token source that tries *token_sources* in order, until one returns exact tokens or is slow."""

    def __init__(self, token_sources: Sequence[TokenSource]) -> None:
        self._token_sources = token_sources

    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        """Return the first exact answer. If no source has exact tokens, return the last reason except "unavailable"."""
        refusal = NotExact("unavailable")
        for token_source in self._token_sources:
            outcome = await token_source.ids(prompt)
            if isinstance(outcome, Exact):
                return outcome
            if outcome.reason == "slow":
                return outcome
            if outcome.reason != "unavailable":
                refusal = outcome
        return refusal
