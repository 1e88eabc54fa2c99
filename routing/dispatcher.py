"""Interface for deciding when a request is sent and in which order its candidate workers are tried."""

from collections.abc import Callable, Mapping
from typing import Final, Literal, Protocol

import msgspec

from cache_index.native import mypyc_attr
from cache_index.value import Value
from routing.booking import Booking
from routing.candidate import Candidate
from routing.explanation import Explanation, Reason, effective_of, longest_wait_s, places_of, prefill_s, reason_of
from routing.fleet import Fleet
from routing.request import Request
from routing.strategies.by_name import StrategiesByName


@mypyc_attr(acyclic=True)
class Dispatch(Value):
    """Released request with its candidate workers, best first. The request is already booked on the first candidate."""

    __match_args__ = ("request", "order", "booking", "reason", "strategy", "reserves")
    __slots__ = __match_args__

    def __init__(  # noqa: PLR0917  # one for each field
        self,
        request: Request,
        order: list[Candidate],
        booking: Booking | None,
        reason: Reason,
        strategy: str,
        reserves: int = 0,
    ) -> None:
        self.request: Final = request
        self.order: Final = order
        self.booking: Final = booking
        """Booking of the request on a worker, or None if there are no candidate workers."""
        self.reason: Final = reason
        self.strategy: Final = strategy
        """Name of the strategy that ordered the candidate workers."""
        self.reserves: Final = reserves
        """Number of workers at the end of `order` that the strategy did not rank, because they are in later pools."""


MIN_RETRY_S = 1.0


class Refusal(msgspec.Struct, frozen=True):
    """Request that is refused because its wait would be too long."""

    request: Request
    why: Literal["queue full", "too late", "spill"]
    """Reason for the refusal. "queue full": the team already has the maximum number of waiting requests. "too late":
    the predicted wait exceeds the caller's deadline. "spill": the wait exceeds `Request.spill_in_s`, so a fallback is
    allowed to answer the request. If the request is submitted again without `spill_in_s`, it waits.
    """
    wait_s: float
    """Predicted wait of the request in seconds."""
    retry_after_s: float
    """Predicted seconds until the queue would accept the request, if no other requests arrive."""


class Dispatcher(Protocol):
    """Queue that holds requests until they should be sent. Candidate workers are ranked only at release."""

    @property
    def waiting(self) -> int:
        """Number of requests that wait for their release."""
        ...

    @property
    def others_wait(self) -> bool:
        """Whether requests that are no lines of batches wait for their release."""
        ...

    @property
    def waiting_by_team(self) -> Mapping[str, int]:
        """Number of waiting requests by team. If teams are not used, all requests count under the empty string."""
        ...

    def oldest_wait_s(self, now: float) -> float:
        """Return the longest wait of all held requests in seconds, or 0 if no request is held."""
        ...

    def submit(self, request: Request, now: float) -> None:
        """Accept *request*, which arrived at *now* or has been waiting since that time."""
        ...

    def poll(self, now: float) -> list[Dispatch]:
        """Return the requests to send at *now*, each once. Call this after every submit, release and fleet change."""
        ...

    def refused(self) -> list[Refusal]:
        """Return the requests that were refused since the last call, each once. Call this method after every poll."""
        ...

    def at_once(self, request: Request, now: float) -> Dispatch:
        """Release *request* immediately, because it continues an answer that began on another worker.

        The request must not have been submitted.
        """
        ...

    def next_poll_at(self, now: float) -> float | None:
        """Return the time of the next `poll` if no event occurs, or None if only an event requires a `poll`."""
        ...

    def cancel(self, request: Request) -> None:
        """Drop the held *request* because its caller closed the connection. Released requests are not affected."""
        ...

    def hand_over(self) -> list[tuple[Request, float]]:
        """Remove all held requests and return them with their arrival times, for use by another dispatcher."""
        ...

    def explain(self, request: Request, now: float) -> Explanation:
        """Explain how *request* would be released at *now*, without changing state or holding or booking it."""
        ...


Arrange = Callable[[list[Candidate]], list[Candidate]]


class Immediate:
    """Dispatcher that releases every request immediately to the best candidate worker."""

    def __init__(self, fleet: Fleet, strategies: StrategiesByName) -> None:
        self._fleet = fleet
        self._strategies = strategies
        self._submitted: list[tuple[Request, float]] = []
        self._refused: list[Refusal] = []

    @property
    def waiting(self) -> int:
        return 0

    @property
    def others_wait(self) -> bool:
        return False

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
        """Explain how a request would be released. *arrange* turns the strategy's order into the order of attempts."""
        name = request.strategy or self._strategies.default
        begins_session = self._fleet.sessions.would_begin(request)
        candidates = self._fleet.candidates(request, now, begins_session=begins_session)
        reach = self._fleet.reach(request, candidates)
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
        """Release the request immediately. Return None if the request is refused."""
        begins_session = self._fleet.sessions.begins(request)
        candidates = self._fleet.candidates(request, now, begins_session=begins_session)
        if request.spill_in_s is not None and candidates:
            refusal = self._late_refusal(request, request.spill_in_s, candidates, now - since)
            if refusal is not None:
                self._refused.append(refusal)
                return None
        return self._dispatch(request, candidates, now)

    def _late_refusal(
        self, request: Request, spill_in_s: float, candidates: list[Candidate], waited_s: float
    ) -> Refusal | None:
        """Return the refusal of a request that should go to a fallback.

        Returns None if one of *candidates* may answer in time, or if the request is pinned to a worker.
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
        reserves = 0
        if not self._fleet.members.has_pools:
            order = admitting_first(self._strategies.named(name).rank(request, candidates))
        else:
            reach = self._fleet.reach(request, candidates)
            order = admitting_first(self._strategies.named(name).rank(request, reach.near)) + reach.far
            reserves = len(reach.far)
        booking = self._fleet.bookings.book(request, order[0], now)
        return Dispatch(request, order, booking, reason_of(order), name, reserves)


def admitting_first(ranked: list[Candidate]) -> list[Candidate]:
    """Return *ranked* with workers at the end that are warming up and already have enough requests."""
    return [c for c in ranked if c.admits] + [c for c in ranked if not c.admits]
