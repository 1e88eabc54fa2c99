"""Fallbacks of one model in order of preference, and the reservation of their limits.

1. Limits are reserved before a request is sent, in one step without ``await``. However many requests fail over at once,
   no more are sent than rate limits and budgets allow.
2. Nothing is reserved for a fallback that the caller does not reach.
3. Each reservation is settled once, to the actual use.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from gateway.backends.fallbacks.fallback import Connections, Fallback
from gateway.backends.fallbacks.fallback_attempt import FallbackAttempt, Outcome, Skipped, Why
from gateway.backends.fallbacks.fallback_request import FallbackRequest
from gateway.backends.fallbacks.outage import Outage
from gateway.backends.fallbacks.spill_budget import SpillBudget, SpillLimits


class FallbackCounts:
    """Number of requests to the fallbacks of one model since startup, by outcome."""

    __slots__ = ("requests", "skipped")

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, Outcome]] = Counter()
        """Number of attempts by fallback id and outcome."""
        self.skipped: Counter[tuple[str, Why]] = Counter()
        """Number of skipped attempts by fallback id and reason."""


class Fallbacks:
    """Fallbacks of one model in order of preference. The object is false if the model has no fallbacks."""

    def __init__(
        self,
        model: str,
        fallbacks: Sequence[Fallback] = (),
        *,
        limits: SpillLimits | None = None,
        former: "Fallbacks | None" = None,
    ) -> None:
        """Create the fallbacks of *model*. *limits* apply to the model as a whole. The budget and counts of *former*
        are kept.
        """
        self.model = model
        self.in_order = tuple(fallbacks)
        self._limits = limits or SpillLimits()
        self.budget: SpillBudget = SpillBudget() if former is None else former.budget
        self.counts: FallbackCounts = FallbackCounts() if former is None else former.counts
        self.outage: Outage = Outage() if former is None else former.outage
        self._leaving: tuple[Connections, ...] = ()
        if former is not None:
            staying = {id(fallback.connections) for fallback in self.in_order}
            former_ones = (*former._leaving, *former._connections())  # noqa: SLF001  # of the same class
            self._leaving = tuple(each for each in former_ones if each.connections_open and id(each) not in staying)

    def __bool__(self) -> bool:
        return bool(self.in_order)

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids of the fallbacks in order of preference."""
        return tuple(fallback.id for fallback in self.in_order)

    @property
    def limits(self) -> SpillLimits:
        """Limits of all fallbacks of the model together."""
        return self._limits

    def note_request(self, now: float) -> None:
        """Count a request for the model, whether or not a fallback will answer it."""
        if self.in_order:
            self.budget.note_request(now)

    def attempts(self, request: FallbackRequest, now: float) -> Iterator[FallbackAttempt | Skipped]:
        """Yield an attempt for each fallback in order, or the reason why the fallback is skipped.

        An attempt's limits are reserved when it is yielded. End each attempt before requesting the next one.
        """
        for fallback in self.in_order:
            place = self._place(fallback, request, now)
            yield place
            if isinstance(place, FallbackAttempt) and place.ended_at is not None:
                now = max(now, place.ended_at)

    def retire(self, successor: "Fallbacks | None") -> None:
        """Close the connections that *successor* does not use, each one as soon as its current call ends."""
        staying = set() if successor is None else {id(fallback.connections) for fallback in successor.in_order}
        for connections in self._connections():
            if id(connections) not in staying:
                connections.retire()

    async def aclose(self) -> None:
        """Close all connections immediately, including connections of replaced settings."""
        for connections in (*self._connections(), *self._leaving):
            await connections.aclose()

    def _connections(self) -> list[Connections]:
        return [fallback.connections for fallback in self.in_order if fallback.connections is not None]

    def _place(self, fallback: Fallback, request: FallbackRequest, now: float) -> FallbackAttempt | Skipped:
        price, output = fallback.price(), fallback.output_tokens(request)
        tokens = request.prompt_tokens + output
        usd = price.cost_usd(request.prompt_tokens, 0.0, output)
        skipped = self._skipped(fallback, request, tokens, usd, now)
        if skipped is not None:
            self.counts.skipped[fallback.id, skipped.why] += 1
            return skipped
        fallback.target.allowance.reserve(tokens, now)
        return FallbackAttempt(
            fallback,
            request,
            now,
            budget=self.budget,
            spill=self.budget.reserve(usd, now),
            reserved_tokens=tokens,
            price=price,
            counted=self._count,
        )

    def _skipped(
        self, fallback: Fallback, request: FallbackRequest, tokens: float, usd: float, now: float
    ) -> Skipped | None:
        if request.path not in fallback.paths:
            return Skipped("not_served", None, fallback.id)
        if not fallback.takes(request):
            return Skipped("too_long", None, fallback.id)
        wait_s: float | None = fallback.target.breaker.wait_s(now)
        if wait_s:
            return Skipped("breaker", wait_s, fallback.id)
        wait_s = fallback.target.allowance.wait_s(tokens, now)
        if wait_s is None or wait_s > 0.0:
            return Skipped("rate", wait_s, fallback.id)
        lack = self.budget.lack(self._limits, usd, now)
        return None if lack is None else Skipped(lack.of, lack.wait_s, fallback.id)

    def _count(self, backend: str, outcome: Outcome) -> None:
        self.counts.requests[backend, outcome] += 1
