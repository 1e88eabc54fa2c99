"""Delivery of a request by Envoy to the worker that the gateway has chosen."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from cache_index import WorkerId
from gateway.backends.backend import Backend, Call, WorkerBackend
from gateway.picker.destinations import Destinations
from gateway.picker.heads import PREFILL
from gateway.picker.reply import EnvoyReply
from gateway.picker.stream import RETRY_AFTER_S
from gateway.protocol.errors import NoWorker, ReplyBroken


class Wire(Protocol):
    """Connection to Envoy for one request."""

    async def forward(self, call: Call, destination: str) -> None:
        """Let Envoy send *call* to one of the endpoints *destination*, in their order."""
        ...

    async def reply(self) -> tuple[EnvoyReply, str | None]:
        """Return the answer as soon as its headers have arrived, and the endpoint that has sent it if it is known."""
        ...


class EnvoyDelivery:
    """Delivery of one request. Implements `gateway.backends.delivery.Delivery`."""

    def __init__(
        self,
        wire: Wire,
        destinations: Destinations,
        *,
        subset: frozenset[str] | None,
        max_fallbacks: int,
        shows_answers: bool,
    ) -> None:
        """Create the delivery. *subset* are the endpoints that Envoy accepts, or None for all. Envoy gets at most
        *max_fallbacks* further endpoints for its retries.
        """
        self._wire = wire
        self._destinations = destinations
        self._subset = subset
        self._max_fallbacks = max_fallbacks
        self.shows_answers = shows_answers
        self._prefill: WorkerBackend | None = None
        self._workers: Mapping[WorkerId, WorkerBackend] = {}
        self._is_sent = False

    def allowed(self, workers: Mapping[WorkerId, WorkerBackend]) -> frozenset[WorkerId] | None:
        """Return the workers at endpoints that Envoy accepts (see `Delivery.allowed`)."""
        self._workers = workers
        if self._subset is None:
            return None
        found = [worker for worker, each in workers.items() if self._destinations.known(each) in self._subset]
        if not found:
            text = (
                f"None of the {len(self._subset)} endpoints that the proxy in front of the gateway accepts is a worker"
            )
            raise NoWorker(f"{text} of this model", retry_after_s=RETRY_AFTER_S)
        return None if len(found) == len(workers) else frozenset(found)

    def to(
        self, worker: WorkerBackend, others: Sequence[WorkerBackend], on_served: Callable[[WorkerId], None]
    ) -> Backend:
        """Return the backend that sends a request through Envoy (see `Delivery.to`)."""
        return _ThroughEnvoy(self, worker, others, on_served)

    def prefill_at(self, worker: WorkerBackend) -> None:
        """Name the prefill worker *worker* in a header, which the side-car of the decode worker reads."""
        self._prefill = worker

    async def send(
        self, call: Call, worker: WorkerBackend, others: Sequence[WorkerBackend], on_served: Callable[[WorkerId], None]
    ) -> EnvoyReply:
        """Let Envoy send *call* to *worker* or one of *others*, and return the answer.

        Raises:
            ConnectFailed: if the address of *worker* is unknown. Nothing was sent.
            ReplyBroken: if Envoy has already sent the request.
        """
        endpoints = [await self._destinations.of(worker)]
        for other in others:
            known = self._destinations.known(other)
            if len(endpoints) > self._max_fallbacks:
                break
            if known is not None and known not in endpoints:
                endpoints.append(known)
        call = worker.addressed(call)
        if self._prefill is not None:
            prefill = await self._destinations.of(self._prefill)
            call = call.changed(headers=[*call.headers, (PREFILL, prefill.encode("ascii"))])
        if self._is_sent:
            raise ReplyBroken("Envoy sends a request only once")
        self._is_sent = True
        await self._wire.forward(call, ",".join(endpoints))
        reply, served = await self._wire.reply()
        if served is not None and served != endpoints[0]:
            moved = self._destinations.worker_at(served, self._workers)
            if moved is not None:
                on_served(moved)
        return reply


class _ThroughEnvoy:
    """Backend that lets Envoy send requests to one worker. Implements `gateway.backends.backend.Backend`."""

    def __init__(
        self,
        delivery: EnvoyDelivery,
        worker: WorkerBackend,
        others: Sequence[WorkerBackend],
        on_served: Callable[[WorkerId], None],
    ) -> None:
        self.id = worker.id
        self._delivery = delivery
        self._worker = worker
        self._others = others
        self._on_served = on_served

    async def send(self, call: Call, *, first_byte_s: float | None = None) -> EnvoyReply:  # noqa: ARG002  # Envoy's limits count
        """Let Envoy send *call* (see `EnvoyDelivery.send`)."""
        return await self._delivery.send(call, self._worker, self._others, self._on_served)
