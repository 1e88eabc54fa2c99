"""When a request is sent, and with which order of candidates."""

from collections.abc import Callable, Mapping
from typing import Literal, Protocol

import msgspec

from routing.booking import Booking
from routing.candidate import Candidate
from routing.explanation import Explanation, effective_of, places_of
from routing.fleet import Fleet
from routing.reason import Reason, reason_of
from routing.request import Request
from routing.strategies.by_name import StrategiesByName


class Dispatch(msgspec.Struct, frozen=True):
    """A request released, with its candidates best first. It is booked on the first of them already."""

    request: Request
    order: list[Candidate]
    booking: Booking | None
    """None if there is no candidate."""
    reason: Reason
    strategy: str
    """Name of the one that made the order."""


class Refusal(msgspec.Struct, frozen=True):
    """A request that will not be released: its wait cannot fit."""

    request: Request
    why: Literal["queue full", "too late"]
    """As many of its team wait as may; or it would get its first token after its caller has gone."""
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
        self._submitted: list[Request] = []

    @property
    def waiting(self) -> int:
        return 0

    @property
    def waiting_by_team(self) -> Mapping[str, int]:
        return {}

    def oldest_wait_s(self, now: float) -> float:  # noqa: ARG002
        return 0.0

    def submit(self, request: Request, now: float) -> None:  # noqa: ARG002
        self._submitted.append(request)

    def poll(self, now: float) -> list[Dispatch]:
        released, self._submitted = self._submitted, []
        return [self._release(request, now) for request in released]

    def refused(self) -> list[Refusal]:
        return []

    def next_poll_at(self, now: float) -> float | None:  # noqa: ARG002
        return None

    def hand_over(self) -> list[tuple[Request, float]]:
        return []

    def cancel(self, request: Request) -> None:
        self._submitted = [other for other in self._submitted if other is not request]

    def explain(self, request: Request, now: float, arrange: Arrange | None = None) -> Explanation:
        """*arrange* makes of the order of the strategy the one in which candidates are tried."""
        name = request.strategy or self._strategies.default
        ranking = self._strategies.named(name).explain(request, self._fleet.candidates(request, now))
        order = (arrange or admitting_first)(ranking.order)
        return Explanation(
            request=request,
            strategy=name,
            effective=effective_of(ranking),
            reason=reason_of(order),
            places=places_of(request, order, ranking.costs_s),
            excluded=self._fleet.excluded(request, now),
        )

    def _release(self, request: Request, now: float) -> Dispatch:
        name = request.strategy or self._strategies.default
        ranked = self._strategies.named(name).rank(request, self._fleet.candidates(request, now))
        if not ranked:
            return Dispatch(request, [], None, "none", name)
        order = admitting_first(ranked)
        return Dispatch(request, order, self._fleet.book(request, order[0], now), reason_of(order), name)


def admitting_first(ranked: list[Candidate]) -> list[Candidate]:
    """The order with those that are being warmed up, and have as much as they should have, behind the others."""
    return [c for c in ranked if c.admits] + [c for c in ranked if not c.admits]
