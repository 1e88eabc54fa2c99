"""Interface between the proxy and a server in front of the gateway, such as Envoy, that sends requests to workers.

The gateway then only chooses the worker. All other phases of a request are the same: the answer passes through the
gateway, and the request holds its slot until the answer ends.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from cache_index import WorkerId
from gateway.backends.backend import Backend, Call, WorkerBackend
from gateway.protocol.errors import GatewayError
from gateway.protocol.headers import HeaderLookup


class Delivery(Protocol):
    """Delivery of one request by a server in front of the gateway. A request is delivered at most once."""

    @property
    def shows_answers(self) -> bool:
        """Return whether the body of the answer passes through the gateway."""
        ...

    @property
    def may_begin(self) -> bool:
        """Return whether the headers of a request can decide. Otherwise, `begin` does nothing."""
        ...

    async def begin(self, call: Call, header: HeaderLookup, team: str, check_model: Callable[[str, str], None]) -> None:
        """Let the server send the request to the worker of its session while the body arrives, if the headers decide.

        *call* is the request for the worker, without a body. *header* returns a header of the request of the team
        *team*. *check_model* raises Forbidden if the caller may not use a model, given as its name in the request and
        its configured name.
        """
        ...

    def allowed(self, workers: Mapping[WorkerId, WorkerBackend]) -> frozenset[WorkerId] | None:
        """Return those *workers* that the server accepts for the request, or None if it accepts all.

        Raises:
            NoWorker: if it accepts none of them.
        """
        ...

    def to(
        self, worker: WorkerBackend, others: Sequence[WorkerBackend], on_served: Callable[[WorkerId], None]
    ) -> Backend:
        """Return the backend that lets the server send a request to *worker*, or to one of *others* if *worker* fails.

        *on_served* is called as soon as the answer begins, with the id of the worker that answers, if the server
        reports it.
        """
        ...

    @property
    def wants_costs(self) -> bool:
        """Return whether the server expects the costs of the workers. Otherwise, `note_costs` does nothing."""
        ...

    def note_costs(self, costs_s: Mapping[WorkerId, float]) -> None:
        """Keep the expected costs of the request on workers, in seconds. Call this before the request is sent."""
        ...

    def status_of(self, error: GatewayError) -> int:
        """Return the status with which the server expects to be answered if a request fails with *error*."""
        ...

    def prefill_at(self, worker: WorkerBackend) -> None:
        """Let the prefill worker *worker* compute the prompt of the request before it is answered. Call this method
        before the request is sent.
        """
        ...
