"""One request's place at one fallback, from the reservation to what it really cost."""

from collections.abc import Callable
from typing import Literal

import msgspec

from gateway.backends.backend import Backend
from gateway.cascade.fallback import Fallback
from gateway.cascade.need import Need
from gateway.cascade.spill_budget import Spill, SpillBudget
from gateway.cascade.target import Kind
from gateway.cascade.verdict import nothing_was_done, verdict_of
from gateway.errors import UpstreamError
from gateway.ledger.price import Price
from gateway.usage import Usage

Why = Literal["too long", "rate", "budget", "share", "breaker", "not served"]
"""Why a fallback is not asked: the prompt and output do not fit; its rate has no room; the model's budget or share of
spilled requests has none; it failed just now; it has no such endpoint."""

Outcome = Literal["answered", "failed", "left", "unused"]


class Turned(msgspec.Struct, frozen=True):
    """A fallback that is not asked, and why."""

    why: Why
    retry_after_s: float | None
    """When there may be room; None: never for this request, or nobody knows."""
    backend: str
    """Id of the fallback."""


class Passage:
    """Whoever got one ends it, in one of four ways; the first counts, what is said later changes nothing.

    So `left` or `unused` may stand in a ``finally``.
    """

    def __init__(
        self,
        fallback: Fallback,
        need: Need,
        now: float,
        *,
        budget: SpillBudget,
        spill: Spill,
        reserved_tokens: float,
        price: Price,
        counted: Callable[[str, Outcome], None],
    ) -> None:
        """*spill* and *reserved_tokens* are held of the budget and of the target's allowance; *counted* hears of the
        end, with the fallback's id.
        """
        self.backend: Backend = fallback.backend
        self.kind: Kind = fallback.kind
        self.price = price
        """Of its tokens, as the request was let in."""
        self.ended_at: float | None = None
        self._fallback = fallback
        self._need = need
        self._budget = budget
        self._spill = spill
        self._reserved_tokens = reserved_tokens
        self._life = fallback.target.breaker.sent(now)
        self._counted = counted

    def began(self) -> None:
        """The first useful byte of an answer is here: a fallback that was on trial is let in again. Ends nothing."""
        if self.ended_at is None:
            self._fallback.target.breaker.began(self._life)

    def answered(self, usage: Usage | None, now: float) -> None:
        """The answer is complete; without *usage* it is counted as expected."""
        if self._ends("answered", now):
            self._fallback.target.breaker.answered(self._life)
            if usage is None:
                self._spend(self._need.expected_output_tokens, now)
            else:
                cached = usage.cached_tokens or 0
                self._spend(usage.completion_tokens, now, prompt=usage.prompt_tokens, cached=cached)

    def failed(self, error: UpstreamError, now: float) -> None:
        """It failed before or in its answer. Unless it is sure that nothing was generated, that is paid for."""
        if self._ends("failed", now):
            target = self._fallback.target
            target.breaker.failed(verdict_of(error), self._life, now)
            if nothing_was_done(error):
                self._give_back(now)
            else:
                self._spend(self._need.expected_output_tokens, now)

    def left(self, streamed_tokens: int, now: float) -> None:
        """The caller went away, *streamed_tokens* into the answer: they and the prompt are paid for.

        Where nothing was sent, or the fallback said that the request is wrong, `unused` is the one to call.
        """
        if self._ends("left", now):
            self._fallback.target.breaker.released(self._life)
            self._spend(streamed_tokens, now)

    def unused(self, now: float) -> None:
        """Nothing was asked (the request cannot be translated), or the answer was a 4xx: nothing is spent."""
        if self._ends("unused", now):
            self._fallback.target.breaker.released(self._life)
            self._give_back(now)

    def retry_in_s(self, now: float) -> float:
        """Seconds until a request may be sent to this fallback; 0: now, for all that failures say."""
        return self._fallback.target.breaker.wait_s(now)

    def _ends(self, outcome: Outcome, now: float) -> bool:
        if self.ended_at is not None:
            return False
        self.ended_at = now
        self._counted(self.backend.id, outcome)
        return True

    def _spend(self, output: float, now: float, *, prompt: float | None = None, cached: float = 0.0) -> None:
        prompt = self._need.prompt_tokens if prompt is None else prompt
        self._budget.settle(self._spill, self.price.cost_usd(prompt, cached, output), now)
        used = prompt - cached + output * self._fallback.output_weight  # AWS does not count what it read from its cache
        self._fallback.target.allowance.settle(self._reserved_tokens, used, now)

    def _give_back(self, now: float) -> None:
        self._budget.give_back(self._spill, now)
        self._fallback.target.allowance.settle(self._reserved_tokens, 0.0, now)
