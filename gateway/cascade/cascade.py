"""The fallbacks of one model, in order, and what may be asked of them.

1. A place is reserved before anything is sent, in one step that nothing else can come between: however many requests
   fail over at once, no more of them pass than rates and budget have room for.
2. Nothing is reserved of a fallback that the caller does not come to.
3. What was reserved is settled once, to what it really came to.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from gateway.cascade.fallback import Connections, Fallback
from gateway.cascade.need import Need
from gateway.cascade.outage import Outage
from gateway.cascade.passage import Outcome, Passage, Turned, Why
from gateway.cascade.spill_budget import SpillBudget, SpillLimits


class CascadeCounts:
    """What a model's fallbacks came to since the start."""

    __slots__ = ("requests", "turned")

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, Outcome]] = Counter()
        """By id of the fallback and how it ended."""
        self.turned: Counter[tuple[str, Why]] = Counter()
        """By id of the fallback and why it was not asked."""


class Cascade:
    """Of one model; false where there is no fallback."""

    def __init__(
        self,
        model: str,
        fallbacks: Sequence[Fallback] = (),
        *,
        limits: SpillLimits | None = None,
        former: "Cascade | None" = None,
    ) -> None:
        """*limits* are of this *model*; what *former* has spent and counted goes on."""
        self.model = model
        self.fallbacks = tuple(fallbacks)
        self._limits = limits or SpillLimits()
        self.budget: SpillBudget = SpillBudget() if former is None else former.budget
        self.counts: CascadeCounts = CascadeCounts() if former is None else former.counts
        self.outage: Outage = Outage() if former is None else former.outage
        self._leaving: tuple[Connections, ...] = ()
        if former is not None:
            staying = {id(fallback.connections) for fallback in self.fallbacks}
            former_ones = (*former._leaving, *former._connections())  # noqa: SLF001  # of the same class
            self._leaving = tuple(each for each in former_ones if each.connections_open and id(each) not in staying)

    def __bool__(self) -> bool:
        return bool(self.fallbacks)

    @property
    def ids(self) -> tuple[str, ...]:
        """Of its fallbacks, in order."""
        return tuple(fallback.id for fallback in self.fallbacks)

    def note_request(self, now: float) -> None:
        """A request for the model came, whoever is to answer it."""
        if self.fallbacks:
            self.budget.note_request(now)

    def passages(self, need: Need, now: float) -> Iterator[Passage | Turned]:
        """A place at each fallback in turn, or why there is none. Reserved when it is yielded, not before.

        Each passage is to be ended before the next is asked for; the next is reserved at the time of that end.
        """
        for fallback in self.fallbacks:
            place = self._place(fallback, need, now)
            yield place
            if isinstance(place, Passage) and place.ended_at is not None:
                now = max(now, place.ended_at)

    def retire(self, successor: "Cascade | None") -> None:
        """Let go of the connections that *successor* does not use; what is being answered goes on."""
        staying = set() if successor is None else {id(fallback.connections) for fallback in successor.fallbacks}
        for connections in self._connections():
            if id(connections) not in staying:
                connections.retire()

    async def aclose(self) -> None:
        """Cut the connections, also those that settings before these had."""
        for connections in (*self._connections(), *self._leaving):
            await connections.aclose()

    def _connections(self) -> list[Connections]:
        return [fallback.connections for fallback in self.fallbacks if fallback.connections is not None]

    def _place(self, fallback: Fallback, need: Need, now: float) -> Passage | Turned:
        price, output = fallback.price(), fallback.output_tokens(need)
        tokens = need.prompt_tokens + output
        usd = price.cost_usd(need.prompt_tokens, 0.0, output)
        turned = self._turned(fallback, need, tokens, usd, now)
        if turned is not None:
            self.counts.turned[fallback.id, turned.why] += 1
            return turned
        fallback.target.allowance.reserve(tokens, now)
        return Passage(
            fallback,
            need,
            now,
            budget=self.budget,
            spill=self.budget.reserve(usd, now),
            reserved_tokens=tokens,
            price=price,
            counted=self._count,
        )

    def _turned(self, fallback: Fallback, need: Need, tokens: float, usd: float, now: float) -> Turned | None:
        if need.path not in fallback.paths:
            return Turned("not served", None, fallback.id)
        if not fallback.takes(need):
            return Turned("too long", None, fallback.id)
        wait_s: float | None = fallback.target.breaker.wait_s(now)
        if wait_s:
            return Turned("breaker", wait_s, fallback.id)
        wait_s = fallback.target.allowance.wait_s(tokens, now)
        if wait_s is None or wait_s > 0.0:
            return Turned("rate", wait_s, fallback.id)
        lack = self.budget.lack(self._limits, usd, now)
        return None if lack is None else Turned(lack.of, lack.wait_s, fallback.id)

    def _count(self, backend: str, outcome: Outcome) -> None:
        self.counts.requests[backend, outcome] += 1
