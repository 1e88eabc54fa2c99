"""Whoever can tell a prompt's exact tokens, one after the other."""

from collections.abc import Sequence

from gateway.tokenizing.exactness import Exact, NotExact
from gateway.tokenizing.rung import RawPrompt, Rung


class Ladder:
    """A `Rung` of *rungs*: each is asked only if those before it could not tell, and took no time over it."""

    def __init__(self, rungs: Sequence[Rung]) -> None:
        self._rungs = rungs

    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        """The first exact answer; where there is none, the last reason that says more than "unavailable"."""
        refusal = NotExact("unavailable")
        for rung in self._rungs:
            outcome = await rung.ids(prompt)
            if isinstance(outcome, Exact):
                return outcome
            if outcome.reason == "slow":
                return outcome
            if outcome.reason != "unavailable":
                refusal = outcome
        return refusal
