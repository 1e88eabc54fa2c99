"""Rungs, one after the other."""

from dataclasses import dataclass

import pytest

from gateway.tokenizing.exactness import Exact, NotExact, Reason
from gateway.tokenizing.ladder import Ladder
from gateway.tokenizing.rung import RawPrompt

PROMPT = RawPrompt("/v1/completions", b"{}", "m")
TOKENS = Exact(b"\1\0\0\0", 1)


@dataclass
class Says:
    """A rung that always says the same."""

    outcome: Exact | NotExact
    asked: int = 0

    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        self.asked += 1
        return self.outcome


async def test_the_first_that_can_tell_is_heard() -> None:
    """Nobody is asked after it."""
    last = Says(TOKENS)

    assert TOKENS == await Ladder([Says(NotExact("unavailable")), Says(TOKENS), last]).ids(PROMPT)
    assert 0 == last.asked


@pytest.mark.parametrize(
    ("reasons", "told"),
    [
        ([], "unavailable"),
        (["unavailable"], "unavailable"),
        (["template", "unavailable"], "template"),
        (["template", "engine"], "engine"),
    ],
)
async def test_the_last_reason_that_says_something_is_told(reasons: list[Reason], told: Reason) -> None:
    """Where nobody can tell."""
    assert NotExact(told) == await Ladder([Says(NotExact(reason)) for reason in reasons]).ids(PROMPT)


async def test_who_took_too_long_is_the_last() -> None:
    """The request has waited enough."""
    last = Says(TOKENS)

    assert NotExact("slow") == await Ladder([Says(NotExact("slow")), last]).ids(PROMPT)
    assert 0 == last.asked
