"""The seam that decides when a request is sent, and with which order of candidates."""

from collections.abc import Callable, Mapping
from typing import Final, Literal, Protocol

import msgspec

from cache_index.value import Value
from routing.booking import Booking
from routing.candidate import Candidate
from routing.explanation import Explanation, Reason, effective_of, longest_wait_s, places_of, prefill_s, reason_of
from routing.fleet import Fleet
from routing.request import Request
from routing.strategies.by_name import StrategiesByName


class Dispatch(Value):
    """A released request with its candidates, best first. It is already booked on the first of them."""

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
        """Booking of the request; None if there is no candidate."""
        self.reason: Final = reason
        self.strategy: Final = strategy
        """Name of the strategy that made the order."""


MIN_RETRY_S = 1.0


class Refusal(msgspec.Struct, frozen=True):
    """A request that will not be released, because its wait would be too long."""

    request: Request
    why: Literal["queue full", "too late", "spill"]
    """queue full: its team has the maximum of waiting requests. too late: its caller will not wait that long.
    spill: so late that it may go elsewhere (`Request.spill_in_s`); submitted again without that, it waits."""
    wait_s: float
    """Predicted wait."""
    retry_after_s: float
    """Predicted time until such a request would be held, if no others come."""


class Dispatcher(Protocol):
    """Holds requests until they should be sent. Strategies rank at release, when most is known."""

    @property
    def waiting(self) -> int:
        """Number of held requests."""
        ...

    @property
    def waiting_by_team(self) -> Mapping[str, int]:
        """Number of held requests by team; without teams, all are under ""."""
        ...

    def oldest_wait_s(self, now: float) -> float:
        """Return the longest wait of a held request; 0 without held requests."""
        ...

    def submit(self, request: Request, now: float) -> None:
        """Accept *request*, which arrived at *now* or has been waiting since then."""
        ...

    def poll(self, now: float) -> list[Dispatch]:
        """Return the requests to send at *now*, each once. Call it after every submit, release and fleet change."""
        ...

    def refused(self) -> list[Refusal]:
        """Return the requests that are no longer held and will not be released, each once. Call it after every poll."""
        ...

    def at_once(self, request: Request, now: float) -> Dispatch:
        """Release *request* without waiting: it continues an answer that began elsewhere.

        It must not have been submitted.
        """
        ...

    def next_poll_at(self, now: float) -> float | None:
        """Return when to call `poll` if no event occurs. None: only after an event."""
        ...

    def cancel(self, request: Request) -> None:
        """Drop *request*: the caller went away. No effect on a request that has been released."""
        ...

    def hand_over(self) -> list[tuple[Request, float]]:
        """Remove all held requests and return them with their arrival times: another dispatcher takes over."""
        ...

    def explain(self, request: Request, now: float) -> Explanation:
        """Explain the release of *request* at *now*. Changes nothing: it is neither held nor booked."""
        ...


Arrange = Callable[[list[Candidate]], list[Candidate]]


class Immediate:
    """Releases every request at once, to the best candidate."""

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
        """Explain a release. *arrange* turns the strategy's order into the one in which candidates are tried."""
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
        """Release the request. None: it is refused."""
        candidates = self._fleet.candidates(request, now)
        if request.spill_in_s is not None and candidates:
            refusal = self._late_refusal(request, request.spill_in_s, candidates, now - since)
            if refusal is not None:
                self._refused.append(refusal)
                return None
        return self._dispatch(request, candidates, now)

    def _late_refusal(
        self, request: Request, spill_in_s: float, candidates: list[Candidate], waited_s: float
    ) -> Refusal | None:
        """A refusal of a request that should go elsewhere.

        None if any of *candidates* may answer in time, or the request is pinned and cannot go elsewhere.
        """
        if request.pinned is not None or not self._fleet.has_learned:
            return None
        waits_s = [waited_s + candidate.load.backlog_s for candidate in candidates]
        allowed_s = [longest_wait_s(spill_in_s, prefill_s(request, candidate)) for candidate in candidates]
        over_s = min(wait_s - most_s for wait_s, most_s in zip(waits_s, allowed_s, strict=True))
        return Refusal(request, "spill", min(waits_s), max(MIN_RETRY_S, over_s)) if over_s > 0.0 else None

    def _dispatch(self, request: Request, candidates: list[Candidate], now: float) -> Dispatch:
        name = request.strategy or self._strategies.default
        if not candidates:
            return Dispatch(request, [], None, "none", name)
        if not self._fleet.members.has_pools:
            order = admitting_first(self._strategies.named(name).rank(request, candidates))
        else:
            reach = self._fleet.reach(request, candidates)
            order = admitting_first(self._strategies.named(name).rank(request, reach.near)) + reach.far
        return Dispatch(request, order, self._fleet.bookings.book(request, order[0], now), reason_of(order), name)


def admitting_first(ranked: list[Candidate]) -> list[Candidate]:
    """Return the order with the candidates behind the others that warm up and have enough requests."""
    return [c for c in ranked if c.admits] + [c for c in ranked if not c.admits]
