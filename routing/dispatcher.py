"""When a request is sent, and with which order of candidates."""

from collections.abc import Callable, Mapping
from typing import Final, Literal, Protocol

import msgspec

from cache_index.value import Value
from routing.booking import Booking
from routing.candidate import Candidate
from routing.explanation import Explanation, effective_of, places_of, prefill_s
from routing.fleet import Fleet
from routing.reason import Reason, reason_of
from routing.request import Request
from routing.strategies.by_name import StrategiesByName
from routing.waiting import longest_wait_s


class Dispatch(Value):
    """A request released, with its candidates best first. It is booked on the first of them already."""

    __match_args__ = ("request", "order", "booking", "reason", "strategy")
    __slots__ = __match_args__

    def __init__(
        self,
        request: Request,
        order: list[Candidate],
        booking: Booking | None,
        reason: Reason,
        strategy: str,
    ) -> None:
        self.request: Final = request
        self.order: Final = order
        self.booking: Final = booking
        """None if there is no candidate."""
        self.reason: Final = reason
        self.strategy: Final = strategy
        """Name of the one that made the order."""


LEAST_RETRY_S = 1.0


class Refusal(msgspec.Struct, frozen=True):
    """A request that will not be released: its wait cannot fit."""

    request: Request
    why: Literal["queue full", "too late", "spill"]
    """As many of its team wait as may; it would get its first token after its caller has gone; or so late that it may
    go elsewhere (`Request.spill_in_s`): submitted again without that, it waits."""
    wait_s: float
    """Predicted: how long it would have to wait."""
    retry_after_s: float
    """Predicted: when one like it would be held, if nobody else comes."""


class Dispatcher(Protocol):
    """Holds requests until they should be sent. Strategies rank at release, when most is known."""

    @property
    def waiting(self) -> int:
        """Requests that are held."""
        ...

    @property
    def waiting_by_team(self) -> Mapping[str, int]:
        """Requests that are held, of every team that has any. One that knows no teams has them all under ""."""
        ...

    def oldest_wait_s(self, now: float) -> float:
        """How long the one has been held that is held longest; 0 if none is."""
        ...

    def submit(self, request: Request, now: float) -> None:
        """*request* came at *now*, or was waiting since then."""
        ...

    def poll(self, now: float) -> list[Dispatch]:
        """Requests to be sent at *now*, each once. To be called after every submit, release and change of the fleet."""
        ...

    def refused(self) -> list[Refusal]:
        """Requests that are not held any more and will not be released, each once. To be called after every poll."""
        ...

    def at_once(self, request: Request, now: float) -> Dispatch:
        """*request* released, whoever waits and however late it comes: it goes on with what had begun elsewhere.

        It must not have been submitted.
        """
        ...

    def next_poll_at(self, now: float) -> float | None:
        """When `poll` should be called although nothing has happened; None: not before something does."""
        ...

    def cancel(self, request: Request) -> None:
        """The caller went away. A request that has been released already is not concerned."""
        ...

    def hand_over(self) -> list[tuple[Request, float]]:
        """Whoever waits, and since when: another dispatcher takes its place, and nobody waits here any more."""
        ...

    def explain(self, request: Request, now: float) -> Explanation:
        """What *request* would get if it were released at *now*. It is neither held nor booked, and nothing changes."""
        ...


Arrange = Callable[[list[Candidate]], list[Candidate]]


class Immediate:
    """Depth infinite: every request is released at once, on the best candidate there is."""

    def __init__(self, fleet: Fleet, strategies: StrategiesByName) -> None:
        self._fleet = fleet
        self._strategies = strategies
        self._submitted: list[tuple[Request, float]] = []
        self._refused: list[Refusal] = []

    @property
    def waiting(self) -> int:
        return 0

    @property
    def waiting_by_team(self) -> Mapping[str, int]:
        return {}

    def oldest_wait_s(self, now: float) -> float:  # noqa: ARG002
        return 0.0

    def submit(self, request: Request, now: float) -> None:
        self._submitted.append((request, now))

    def poll(self, now: float) -> list[Dispatch]:
        submitted, self._submitted = self._submitted, []
        released = []
        for request, since in submitted:
            dispatch = self._release(request, since, now)
            if dispatch is not None:
                released.append(dispatch)
        return released

    def refused(self) -> list[Refusal]:
        if not self._refused:
            return []
        refused, self._refused = self._refused, []
        return refused

    def at_once(self, request: Request, now: float) -> Dispatch:
        return self._dispatch(request, self._fleet.candidates(request, now), now)

    def next_poll_at(self, now: float) -> float | None:  # noqa: ARG002
        return None

    def hand_over(self) -> list[tuple[Request, float]]:
        return []

    def cancel(self, request: Request) -> None:
        self._submitted = [submitted for submitted in self._submitted if submitted[0] is not request]

    def explain(self, request: Request, now: float, arrange: Arrange | None = None) -> Explanation:
        """*arrange* makes of the order of the strategy the one in which candidates are tried."""
        name = request.strategy or self._strategies.default
        reach = self._fleet.reach(request, self._fleet.candidates(request, now))
        ranking = self._strategies.named(name).explain(request, reach.near)
        order = (arrange or admitting_first)(ranking.order) + reach.far
        return Explanation(
            request=request,
            strategy=name,
            effective=effective_of(ranking),
            reason=reason_of(order),
            places=places_of(request, order, ranking.costs_s),
            excluded=self._fleet.excluded(request, now),
        )

    def _release(self, request: Request, since: float, now: float) -> Dispatch | None:
        """None if it is refused."""
        candidates = self._fleet.candidates(request, now)
        if request.spill_in_s is not None and candidates:
            refusal = self._late(request, request.spill_in_s, candidates, now - since)
            if refusal is not None:
                self._refused.append(refusal)
                return None
        return self._dispatch(request, candidates, now)

    def _late(
        self, request: Request, spill_in_s: float, candidates: list[Candidate], waited_s: float
    ) -> Refusal | None:
        """Why *request* should go elsewhere; None if any of *candidates* would answer in time, or may for all we know.

        A pinned request cannot go elsewhere.
        """
        if request.pinned is not None or not self._fleet.has_learnt:
            return None
        waits_s = [waited_s + candidate.load.backlog_s for candidate in candidates]
        allowed_s = [longest_wait_s(spill_in_s, prefill_s(request, candidate)) for candidate in candidates]
        over_s = min(wait_s - most_s for wait_s, most_s in zip(waits_s, allowed_s, strict=True))
        return Refusal(request, "spill", min(waits_s), max(LEAST_RETRY_S, over_s)) if over_s > 0.0 else None

    def _dispatch(self, request: Request, candidates: list[Candidate], now: float) -> Dispatch:
        name = request.strategy or self._strategies.default
        if not candidates:
            return Dispatch(request, [], None, "none", name)
        if not self._fleet.has_pools:
            order = admitting_first(self._strategies.named(name).rank(request, candidates))
        else:
            reach = self._fleet.reach(request, candidates)
            order = admitting_first(self._strategies.named(name).rank(request, reach.near)) + reach.far
        return Dispatch(request, order, self._fleet.book(request, order[0], now), reason_of(order), name)


def admitting_first(ranked: list[Candidate]) -> list[Candidate]:
    """The order with those that are being warmed up, and have as much as they should have, behind the others."""
    return [c for c in ranked if c.admits] + [c for c in ranked if not c.admits]
