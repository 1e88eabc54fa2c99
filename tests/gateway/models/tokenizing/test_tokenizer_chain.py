"""Rungs, one after the other."""

from dataclasses import dataclass

import pytest

from gateway.models.tokenizing.exactness import Exact, NotExact, Reason
from gateway.models.tokenizing.token_source import RawPrompt
from gateway.models.tokenizing.tokenizer_chain import TokenizerChain

PROMPT = RawPrompt("/v1/completions", b"{}", "m")
TOKENS = Exact(b"\1\0\0\0", 1)


@dataclass
class Says:
    """A token_source that always says the same."""

    outcome: Exact | NotExact
    asked: int = 0

    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        self.asked += 1
        return self.outcome


async def test_the_first_that_can_tell_is_heard() -> None:
    """No one is asked after it."""
    last = Says(TOKENS)

    assert TOKENS == await TokenizerChain([Says(NotExact("unavailable")), Says(TOKENS), last]).ids(PROMPT)
    assert 0 == last.asked


@pytest.mark.parametrize(
    ("reasons", "reported"),
    [
        ([], "unavailable"),
        (["unavailable"], "unavailable"),
        (["template", "unavailable"], "template"),
        (["template", "engine"], "engine"),
    ],
)
async def test_the_last_reason_that_says_something_is_reported(reasons: list[Reason], reported: Reason) -> None:
    """Where it is not known."""
    assert NotExact(reported) == await TokenizerChain([Says(NotExact(reason)) for reason in reasons]).ids(PROMPT)


async def test_who_took_too_long_is_the_last() -> None:
    """The request has waited enough."""
    last = Says(TOKENS)

    assert NotExact("slow") == await TokenizerChain([Says(NotExact("slow")), last]).ids(PROMPT)
    assert 0 == last.asked
