"""Attempt to answer one request with one fallback, from the reservation of its limits to its actual cost."""

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
"""Reason to skip a fallback: the request does not fit its context, its rate limit is exhausted, the model's budget or
share is exhausted, its breaker is open, or it does not serve the endpoint.
"""

Outcome = Literal["answered", "failed", "left", "unused"]


class Skipped(msgspec.Struct, frozen=True):
    """Fallback that was skipped, and the reason why."""

    why: Why
    retry_after_s: float | None
    """Seconds after which the request might be possible, or None if never or unknown."""
    backend: str
    """Id of the skipped fallback."""


class FallbackAttempt:
    """Request to one fallback, which must end in exactly one of four outcomes.

    Only the first outcome reported counts, so `left` or `unused` can be called in a ``finally`` block.
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
        """Create an attempt. Its budget *spill* and *reserved_tokens* are already reserved. *counted* is called with
        the outcome.
        """
        self.backend: Backend = fallback.backend
        self.kind = fallback.kind
        self.price = price
        """Token price at the time of the reservation."""
        self.ended_at: float | None = None
        self._fallback = fallback
        self._request = request
        self._budget = budget
        self._spill = spill
        self._reserved_tokens = reserved_tokens
        self._life = fallback.target.breaker.sent(now)
        self._counted = counted

    def began(self) -> None:
        """Record the first useful byte of a response, which closes the fallback's breaker. The attempt continues."""
        if self.ended_at is None:
            self._fallback.target.breaker.began(self._life)

    def answered(self, usage: Usage | None, now: float) -> None:
        """Settle the cost of a complete response by its *usage*, or by the expected output if no usage was reported."""
        if self._ends("answered", now):
            self._fallback.target.breaker.answered(self._life)
            if usage is None:
                self._spend(self._request.expected_output_tokens, now)
            else:
                cached = usage.cached_tokens or 0
                self._spend(usage.completion_tokens, now, prompt=usage.prompt_tokens, cached=cached)

    def failed(self, error: UpstreamError, now: float) -> None:
        """Settle the cost of a failed request. If tokens might have been generated, the expected output is charged."""
        if self._ends("failed", now):
            target = self._fallback.target
            target.breaker.failed(classify(error), self._life, now)
            if nothing_was_done(error):
                self._give_back(now)
            else:
                self._spend(self._request.expected_output_tokens, now)

    def left(self, streamed_tokens: int, now: float) -> None:
        """Settle the cost of a request whose client disconnected. The prompt and *streamed_tokens* are charged.

        Call `unused` instead if nothing was sent or the fallback rejected the request as invalid.
        """
        if self._ends("left", now):
            self._fallback.target.breaker.released(self._life)
            self._spend(streamed_tokens, now)

    def unused(self, now: float) -> None:
        """Release all reservations, because the request was not sent or was rejected with a 4xx status."""
        if self._ends("unused", now):
            self._fallback.target.breaker.released(self._life)
            self._give_back(now)

    def retry_in_s(self, now: float) -> float:
        """Return the seconds until the fallback's breaker allows requests again."""
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
