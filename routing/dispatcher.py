"""When a request is sent, and with which order of candidates."""

from typing import Literal, Protocol

import msgspec

from routing.booking import Booking
from routing.candidate import Candidate
from routing.fleet import Fleet
from routing.request import Request
from routing.strategy import Strategy

Reason = Literal["hit", "spread", "cold", "none"]
"""hit: no candidate holds more; spread: one does, but costs more; cold: nobody holds any; none: nobody is there."""


class Dispatch(msgspec.Struct, frozen=True):
    """A request released, with its candidates best first. It is booked on the first of them already."""

    request: Request
    order: list[Candidate]
    booking: Booking | None
    """None if there is no candidate."""
    reason: Reason


class Dispatcher(Protocol):
    """Holds requests until they should be sent. Strategies rank at release, when most is known."""

    def submit(self, request: Request, now: float) -> None: ...

    def poll(self, now: float) -> list[Dispatch]:
        """Requests to be sent at *now*, each once. To be called after every submit, release and change of the fleet."""
        ...

    def cancel(self, request: Request) -> None:
        """The caller went away. A request that has been released already is not concerned."""
        ...


class Immediate:
    """Depth infinite: every request is released at once, on the best candidate there is."""

    def __init__(self, fleet: Fleet, strategy: Strategy) -> None:
        self._fleet = fleet
        self._strategy = strategy
        self._submitted: list[Request] = []

    def submit(self, request: Request, now: float) -> None:  # noqa: ARG002
        self._submitted.append(request)

    def poll(self, now: float) -> list[Dispatch]:
        released, self._submitted = self._submitted, []
        return [self._release(request, now) for request in released]

    def cancel(self, request: Request) -> None:
        self._submitted = [other for other in self._submitted if other is not request]

    def _release(self, request: Request, now: float) -> Dispatch:
        ranked = self._strategy.rank(request, self._fleet.candidates(request, now))
        if not ranked:
            return Dispatch(request, [], None, "none")
        order = [c for c in ranked if c.admits] + [c for c in ranked if not c.admits]
        return Dispatch(request, order, self._fleet.book(request, order[0], now), reason_of(order))


def reason_of(order: list[Candidate]) -> Reason:
    """Why the first of *order* is first, as far as the cache goes."""
    longest = max([candidate.hit_blocks for candidate in order])
    if longest == 0:
        return "cold"
    return "hit" if order[0].hit_blocks == longest else "spread"
