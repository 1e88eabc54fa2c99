"""One request at one fallback, from the reservation to its actual cost."""

from collections.abc import Callable
from typing import Literal

import msgspec

from gateway.backends.backend import Backend
from gateway.backends.fallbacks.failure_class import classify, nothing_was_done
from gateway.backends.fallbacks.fallback import Fallback
from gateway.backends.fallbacks.fallback_request import FallbackRequest
from gateway.backends.fallbacks.spill_budget import HeldBudget, SpillBudget
from gateway.protocol.errors import UpstreamError
from gateway.protocol.usage import Usage
from gateway.tenancy.ledger.price import Price

Why = Literal["too_long", "rate", "budget", "share", "breaker", "not_served"]
"""Reason to skip a fallback: prompt and output do not fit; its rate has no room; the model's budget or share of
requests has none; it failed just now; it does not serve the endpoint."""

Outcome = Literal["answered", "failed", "left", "unused"]


class Skipped(msgspec.Struct, frozen=True):
    """A fallback that is not asked, and why."""

    why: Why
    retry_after_s: float | None
    """Seconds until there may be room; None: never for this request, or not known."""
    backend: str
    """Id of the fallback."""


class FallbackAttempt:
    """Attempt that the caller ends in one of four ways. Only the first counts, so `left` or `unused` may stand in a
    ``finally``.
    """

    def __init__(
        self,
        fallback: Fallback,
        request: FallbackRequest,
        now: float,
        *,
        budget: SpillBudget,
        spill: HeldBudget,
        reserved_tokens: float,
        price: Price,
        counted: Callable[[str, Outcome], None],
    ) -> None:
        """*spill* and *reserved_tokens* are held of the budget and of the target's allowance; *counted* is called
        at the end with the fallback's id.
        """
        self.backend: Backend = fallback.backend
        self.kind = fallback.kind
        self.price = price
        """Price of its tokens at the time of the reservation."""
        self.ended_at: float | None = None
        self._fallback = fallback
        self._request = request
        self._budget = budget
        self._spill = spill
        self._reserved_tokens = reserved_tokens
        self._life = fallback.target.breaker.sent(now)
        self._counted = counted

    def began(self) -> None:
        """Note the first useful byte of an answer, which closes the breaker. Ends nothing."""
        if self.ended_at is None:
            self._fallback.target.breaker.began(self._life)

    def answered(self, usage: Usage | None, now: float) -> None:
        """Settle a complete answer; without *usage* by the expected output."""
        if self._ends("answered", now):
            self._fallback.target.breaker.answered(self._life)
            if usage is None:
                self._spend(self._request.expected_output_tokens, now)
            else:
                cached = usage.cached_tokens or 0
                self._spend(usage.completion_tokens, now, prompt=usage.prompt_tokens, cached=cached)

    def failed(self, error: UpstreamError, now: float) -> None:
        """Settle a failure before or in the answer. The expected output is charged unless nothing was generated."""
        if self._ends("failed", now):
            target = self._fallback.target
            target.breaker.failed(classify(error), self._life, now)
            if nothing_was_done(error):
                self._give_back(now)
            else:
                self._spend(self._request.expected_output_tokens, now)

    def left(self, streamed_tokens: int, now: float) -> None:
        """Settle for a caller who left after *streamed_tokens*: they and the prompt are paid.

        Call `unused` if nothing was sent or the fallback refused the request as wrong.
        """
        if self._ends("left", now):
            self._fallback.target.breaker.released(self._life)
            self._spend(streamed_tokens, now)

    def unused(self, now: float) -> None:
        """Release everything: the request could not be translated, or the answer was a 4xx."""
        if self._ends("unused", now):
            self._fallback.target.breaker.released(self._life)
            self._give_back(now)

    def retry_in_s(self, now: float) -> float:
        """Return the seconds for which failures keep requests from this fallback."""
        return self._fallback.target.breaker.wait_s(now)

    def _ends(self, outcome: Outcome, now: float) -> bool:
        if self.ended_at is not None:
            return False
        self.ended_at = now
        self._counted(self.backend.id, outcome)
        return True

    def _spend(self, output: float, now: float, *, prompt: float | None = None, cached: float = 0.0) -> None:
        prompt = self._request.prompt_tokens if prompt is None else prompt
        self._budget.settle(self._spill, self.price.cost_usd(prompt, cached, output), now)
        used = prompt - cached + output * self._fallback.output_weight  # AWS does not count what it read from its cache
        self._fallback.target.allowance.settle(self._reserved_tokens, used, now)

    def _give_back(self, now: float) -> None:
        self._budget.give_back(self._spill, now)
        self._fallback.target.allowance.settle(self._reserved_tokens, 0.0, now)
