"""A prompt on its way from the worker that computes it to the worker that answers: the seam, and who is behind it."""

from collections.abc import Callable
from typing import Protocol

from gateway.attempt import Attempt
from gateway.backends.backend import Call
from gateway.disaggregation.bootstrap import BootstrapHop
from gateway.disaggregation.division import Division
from gateway.disaggregation.nixl import NixlHop
from gateway.disaggregation.prefills import Asked, Prefills
from gateway.endpoints.endpoint import Endpoint
from gateway.exchange import Exchange
from gateway.model import Model
from gateway.persistence import Persistence
from gateway.sse import Tail
from routing.candidate import Candidate
from routing.request import Request


class Hop(Protocol):
    """The hops of one request: one for each decode worker that is asked, and more where prefill workers fail."""

    async def answer(self, decode: Candidate, call: Call, asked: Asked) -> Attempt:
        """What *decode*, which is to fetch the prompt, answers to *call*, sent by *asked* once or more often.

        Raises:
            UpstreamError: as *asked*; or `PrefillFailed`.
        """
        ...

    def tail(self, *, strip_usage: bool, max_held: int) -> Tail:
        """Watches the stream of the decode worker: of cached tokens it tells what the prefill worker told."""
        ...


def hop_of(
    model: Model,
    division: Division,
    request: Request,
    endpoint: Endpoint,
    exchange: Exchange,
    *,
    persistence: Persistence,
    clock: Callable[[], float],
) -> Hop:
    """Those of *request* to *model*, as its *division* has them."""
    prefills = Prefills(model, division, request, exchange, persistence=persistence, clock=clock)
    if division.flow == "sglang":
        return BootstrapHop(division, prefills, endpoint, exchange)
    return NixlHop(division, prefills, endpoint, exchange, clock=clock)
