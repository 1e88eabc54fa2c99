"""Delivery of a request by Envoy to the worker that the gateway has chosen."""

import heapq
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Final, Protocol

from cache_index import WorkerId
from gateway.backends.backend import Backend, Call, WorkerBackend
from gateway.picker.destinations import Destinations
from gateway.picker.dropped import status_of
from gateway.picker.heads import PREFILL
from gateway.picker.reply import EnvoyReply
from gateway.picker.session_workers import SessionChoice, SessionWorkers
from gateway.picker.stream import RETRY_AFTER_S
from gateway.picker.subset import Subset
from gateway.protocol.errors import Forbidden, GatewayError, InvalidField, NoWorker, ReplyBroken
from gateway.protocol.headers import HeaderLookup
from gateway.protocol.session_identity import ENGINE_HEADER, engine_session

MAX_SCORES: Final = 64
"""Maximum number of endpoints whose scores Envoy gets."""


class Wire(Protocol):
    """Connection to Envoy for one request."""

    async def forward(self, call: Call, destination: str, scores: Mapping[str, float]) -> None:
        """Let Envoy send *call* to one of the endpoints *destination*, in their order. *scores* are those of endpoints,
        or empty.
        """
        ...

    async def begin_to(self, call: Call, destination: str) -> None:
        """Let Envoy send *call* to one of the endpoints *destination* while its body arrives."""
        ...

    async def complete(self, call: Call) -> None:
        """Let Envoy send the rest of *call*. Raise InvalidField if its beginning differs from what was sent."""
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
        subset: Subset | None,
        max_fallbacks: int,
        shows_answers: bool,
        sessions: SessionWorkers | None = None,
        reports_scores: bool = False,
    ) -> None:
        """Create the delivery. *subset* has the endpoints that Envoy accepts, or None for all. Envoy gets at most
        *max_fallbacks* further endpoints for its retries, and the scores of endpoints if *reports_scores* is true.
        *sessions* are the workers of sessions if headers can decide.
        """
        self._wire = wire
        self._destinations = destinations
        self._subset = subset
        self._max_fallbacks = max_fallbacks
        self.shows_answers = shows_answers
        self._prefill: WorkerBackend | None = None
        self._workers: Mapping[WorkerId, WorkerBackend] = {}
        self._is_sent = False
        self._sessions = sessions
        self._begun: SessionChoice | None = None
        self.wants_costs = reports_scores
        self._costs_s: Mapping[WorkerId, float] = {}

    @property
    def may_begin(self) -> bool:
        return self._sessions is not None

    async def begin(self, call: Call, header: HeaderLookup, team: str, check_model: Callable[[str, str], None]) -> None:
        """Let Envoy send the request to the worker of its session while its body arrives (see `Delivery.begin`)."""
        choice = None if self._sessions is None else await self._sessions.choose(header, team, self._subset)
        if choice is None:
            return
        try:
            check_model(choice.model.upstream_name, choice.model.name)
        except Forbidden:
            return  # the body may name another model
        session = (ENGINE_HEADER, engine_session(choice.session, team))
        self._begun = choice
        await self._wire.begin_to(
            choice.backend.addressed(call.changed(headers=[*call.headers, session])), ",".join(choice.endpoints)
        )

    def allowed(self, workers: Mapping[WorkerId, WorkerBackend]) -> frozenset[WorkerId] | None:
        """Return the workers at endpoints that Envoy accepts (see `Delivery.allowed`)."""
        self._workers = workers
        if self._begun is not None:
            return frozenset({_worker_of(self._begun, workers)})
        if self._subset is None:
            return None
        known = {worker: self._destinations.known(each) for worker, each in workers.items()}
        found = [worker for worker, each in known.items() if each is not None and self._subset.accepts(each)]
        if not found:
            text = f"None of the {len(self._subset.names)} endpoints that the proxy in front of the gateway accepts"
            raise NoWorker(f"{text} is a worker of this model", retry_after_s=RETRY_AFTER_S)
        return None if len(found) == len(workers) else frozenset(found)

    def to(
        self, worker: WorkerBackend, others: Sequence[WorkerBackend], on_served: Callable[[WorkerId], None]
    ) -> Backend:
        """Return the backend that sends a request through Envoy (see `Delivery.to`)."""
        return _ThroughEnvoy(self, worker, others, on_served)

    def note_costs(self, costs_s: Mapping[WorkerId, float]) -> None:
        """Keep the expected costs of the request on workers (see `Delivery.note_costs`)."""
        self._costs_s = costs_s

    def status_of(self, error: GatewayError) -> int:
        """Return the status for the caller of a request that failed with *error* (see `Delivery.status_of`)."""
        return status_of(error)

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
        if self._is_sent:
            raise ReplyBroken("Envoy sends a request only once")
        if self._begun is not None:
            self._is_sent = True
            return await self._complete(call, self._begun, on_served)
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
        self._is_sent = True
        await self._wire.forward(call, ",".join(endpoints), self._scores())
        return await self._reply(endpoints[0], on_served)

    def _scores(self) -> dict[str, float]:
        """Return the scores of the cheapest endpoints, which are 1 for no cost and 0.5 for one second. Ranks can share
        an endpoint, whose score is that of its cheapest rank.
        """
        scores: dict[str, float] = {}
        for worker, cost_s in heapq.nsmallest(MAX_SCORES, self._costs_s.items(), key=itemgetter(1)):
            backend = self._workers.get(worker)
            endpoint = None if backend is None else self._destinations.known(backend)
            if endpoint is not None:
                scores.setdefault(endpoint, 1.0 / (1.0 + cost_s))
        return scores

    async def _complete(self, call: Call, begun: SessionChoice, on_served: Callable[[WorkerId], None]) -> EnvoyReply:
        """Let Envoy send the rest of *call*, whose headers it has already sent, and return the answer."""
        name = begun.model.upstream_name
        if call.model != name:
            text = f"The field 'model' must be {name!r}, the name that workers use"
            raise InvalidField(f"{text}, because the session header decides before the body arrives.", param="model")
        await self._wire.complete(call)
        return await self._reply(begun.endpoints[0], on_served)

    async def _reply(self, first: str, on_served: Callable[[WorkerId], None]) -> EnvoyReply:
        """Return the answer. Report the worker that has sent it if it is not that at the endpoint *first*."""
        reply, served = await self._wire.reply()
        if served is not None and served != first:
            moved = self._destinations.worker_at(served, self._workers)
            if moved is not None:
                on_served(moved)
        return reply


def _worker_of(begun: SessionChoice, workers: Mapping[WorkerId, WorkerBackend]) -> WorkerId:
    """Return the worker that Envoy has begun to send the request to, which is one of *workers*.

    Raises:
        InvalidField: if *workers* are those of another model.
        NoWorker: if the worker has left.
    """
    worker = WorkerId(begun.backend.id)
    if worker in workers:
        return worker
    if workers is not begun.model.latest.workers:
        text = "The session header decides before the body arrives, but the body names another model than"
        raise InvalidField(f"{text} {begun.model.name!r}.", param="model")
    raise NoWorker("The worker of the session has left", retry_after_s=RETRY_AFTER_S)


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
