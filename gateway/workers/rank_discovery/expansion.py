"""Expand workers that share an address into one worker for each data-parallel rank and Dynamo instance."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from gateway.workers.kv_events.connection import Network
from gateway.workers.kv_events.sources import AllowedHosts, endpoint_at, host_of
from gateway.workers.shared_address.address_report import AddressReport, Instance
from gateway.workers.worker_place import WorkerPlace
from gateway.workers.worker_spec import DynamoSpec, EventsSpec, InstanceSpec, ModelWorkers, WorkersError, WorkerSpec

Known = Callable[[WorkerSpec, str], AddressReport | None]
"""Function that looks up the report of a worker's address. Its arguments are the worker and the model name that the
worker uses. If there is no report yet, it returns None.
"""

_Reported = Callable[[WorkerSpec], AddressReport | None]


def nothing_known(_: WorkerSpec, __: str) -> None:
    """Return None, because the address has not reported yet."""


def is_asked(worker: WorkerSpec) -> bool:
    """Return whether the workers behind the address are known only from a query to the address."""
    if worker.dynamo is not None:
        return not worker.dynamo.instances
    return ranks_of(worker) == 0


def ranks_of(worker: WorkerSpec) -> int:
    """Return the number of data-parallel ranks of a worker, or of each instance of a frontend. 0 means that the engine
    is queried.
    """
    event_ranks = 1 if worker.kv_events is None else worker.kv_events.ranks
    return event_ranks if worker.ranks == 1 else worker.ranks


def expanded(
    models: Sequence[ModelWorkers], known: Known, networks: Sequence[Network] = ()
) -> tuple[ModelWorkers, ...]:
    """Return *models* with one worker for each data-parallel rank and Dynamo instance.

    A worker whose ranks are not known yet stays one worker. A frontend whose instances are not known yet has no
    workers.

    Raises:
        WorkersError: if two workers of a model would have the same id.
    """
    whole = []
    for model in models:
        workers = tuple(
            one for worker in model.workers for one in _spread(worker, _of(known, model.upstream_model), networks)
        )
        whole.append(model if workers == model.workers else replace(model, workers=workers))
        _check_ids(model.name, workers)
    return tuple(whole)


def _of(known: Known, model: str) -> _Reported:
    return lambda worker: known(worker, model)


def _spread(worker: WorkerSpec, known: _Reported, networks: Sequence[Network]) -> Iterator[WorkerSpec]:
    if worker.dynamo is not None:
        yield from _instances(worker, worker.dynamo, known, AllowedHosts(host_of(worker.url), networks=networks))
        return
    ranks = ranks_of(worker)
    if ranks == 0:
        report = known(worker)
        ranks = 1 if report is None else report.ranks
    if ranks == 1:
        yield worker
    else:
        yield from (_placed(worker, WorkerPlace(rank), worker.kv_events) for rank in range(ranks))


def _instances(worker: WorkerSpec, dynamo: DynamoSpec, known: _Reported, reach: AllowedHosts) -> Iterator[WorkerSpec]:
    listed: Sequence[InstanceSpec] = dynamo.instances
    if not listed:
        report = known(worker)
        listed = [_listed(each, dynamo, reach) for each in (() if report is None else report.instances)]
    for instance in listed:
        events = instance.kv_events
        ranks = worker.ranks if events is None or worker.ranks > 1 else events.ranks
        for rank in range(ranks):
            yield _placed(worker, WorkerPlace(rank if ranks > 1 else None, instance.id), events)


def _listed(instance: Instance, dynamo: DynamoSpec, reach: AllowedHosts) -> InstanceSpec:
    """Return *instance* in the form of the settings. If its host is unknown or not allowed, it has no KV events."""
    if instance.stream is not None:
        return InstanceSpec(id=instance.id, kv_events=instance.stream)
    port, replay_port = dynamo.kv_events_port, dynamo.kv_replay_port
    if port is None or instance.host is None or not reach.has(instance.host):
        return InstanceSpec(id=instance.id)
    replay = None if replay_port is None else endpoint_at(instance.host, replay_port)
    return InstanceSpec(
        id=instance.id,
        kv_events=EventsSpec(endpoint=endpoint_at(instance.host, port), replay_endpoint=replay),
    )


def _placed(worker: WorkerSpec, place: WorkerPlace, events: EventsSpec | None) -> WorkerSpec:
    """Return the worker at *place*. Attributes of the whole address are removed, so that the worker stays equal when
    other workers change.
    """
    if events is not None:
        events = replace(events, ranks=1)
    worker_id = f"{worker.id}#{place.name}"
    return replace(worker, id=worker_id, ranks=1, dynamo=None, kv_events=events, place=place, base=worker.id)


def _check_ids(model: str, workers: Sequence[WorkerSpec]) -> None:
    seen: set[str] = set()
    for worker in workers:
        if worker.id in seen:
            raise WorkersError([f"model {model}: two workers have the id {worker.id}. Give one of them another id."])
        seen.add(worker.id)
