"""Who stands behind addresses that several workers share, and settings with a worker for each of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_network

from gateway.kv_events.connection import Network
from gateway.kv_events.sources import Reach, endpoint_at, host_of
from gateway.ranks.place import Place, PlacedSettings
from gateway.settings import (
    DynamoSettings,
    InstanceSettings,
    Settings,
    SettingsError,
    WorkerEventsSettings,
    WorkerSettings,
)


@dataclass(frozen=True, slots=True)
class Instance:
    """A worker behind a Dynamo frontend, as that tells of it."""

    id: str
    host: str | None = None
    """Where its process is; None: that is not told."""
    stream: WorkerEventsSettings | None = None
    """Of `dynamo.streams` the one that was found to be its own."""


@dataclass(frozen=True, slots=True)
class Population:
    """What an address told of those behind it; which of the two, its settings say."""

    ranks: int = 1
    instances: tuple[Instance, ...] = ()


Known = Callable[[WorkerSettings, str], Population | None]
"""What the address of a worker has told, of a model as it is called there; None: nothing yet."""

_Told = Callable[[WorkerSettings], Population | None]


def nobody(_: WorkerSettings, __: str) -> None:
    """What is known before anybody was asked."""


def is_asked(worker: WorkerSettings) -> bool:
    """Whether only its address knows who stands behind it."""
    if worker.dynamo is not None:
        return not worker.dynamo.instances
    return ranks_of(worker) == 0


def ranks_of(worker: WorkerSettings) -> int:
    """Data-parallel ranks behind its address, or of each worker behind its frontend; 0: the engine is asked."""
    told = 1 if worker.kv_events is None else worker.kv_events.ranks
    return told if worker.ranks == 1 else worker.ranks


def spread(settings: Settings, known: Known) -> Settings:
    """*settings* with a worker for each rank and each worker of Dynamo's, in place of those that stand for them.

    Who has not told yet how many ranks it has is one worker; behind a frontend that has not told there are none.

    Raises:
        SettingsError: somebody else has the id of one of them.
    """
    models = []
    networks = tuple(ip_network(network) for network in settings.kv_events.allowed_cidrs)
    for model in settings.models:
        workers = tuple(
            one for worker in model.workers for one in _spread(worker, _of(known, model.upstream_model), networks)
        )
        models.append(model if workers == model.workers else model.model_copy(update={"workers": workers}))
        _check_ids(model.name, workers)
    return settings.model_copy(update={"models": tuple(models)})


def _of(known: Known, model: str) -> _Told:
    return lambda worker: known(worker, model)


def _spread(worker: WorkerSettings, known: _Told, networks: Sequence[Network]) -> Iterator[WorkerSettings]:
    if worker.dynamo is not None:
        yield from _instances(worker, worker.dynamo, known, Reach(host_of(worker.url), networks=networks))
        return
    ranks = ranks_of(worker)
    if ranks == 0:
        told = known(worker)
        ranks = 1 if told is None else told.ranks
    if ranks == 1:
        yield worker
    else:
        yield from (_placed(worker, Place(rank), worker.kv_events) for rank in range(ranks))


def _instances(worker: WorkerSettings, dynamo: DynamoSettings, known: _Told, reach: Reach) -> Iterator[WorkerSettings]:
    listed: Sequence[InstanceSettings] = dynamo.instances
    if not listed:
        told = known(worker)
        listed = [_listed(each, dynamo, reach) for each in (() if told is None else told.instances)]
    for instance in listed:
        events = instance.kv_events
        ranks = worker.ranks if events is None or worker.ranks > 1 else events.ranks
        for rank in range(ranks):
            yield _placed(worker, Place(rank if ranks > 1 else None, instance.id), events)


def _listed(instance: Instance, dynamo: DynamoSettings, reach: Reach) -> InstanceSettings:
    """As the settings would have it. Who does not say where it is, or names a host out of reach, is not listened to."""
    if instance.stream is not None:
        return InstanceSettings(id=instance.id, kv_events=instance.stream)
    port, replay_port = dynamo.kv_events_port, dynamo.kv_replay_port
    if port is None or instance.host is None or not reach.has(instance.host):
        return InstanceSettings(id=instance.id)
    replay = None if replay_port is None else endpoint_at(instance.host, replay_port)
    return InstanceSettings(
        id=instance.id,
        kv_events=WorkerEventsSettings(endpoint=endpoint_at(instance.host, port), replay_endpoint=replay),
    )


def _placed(worker: WorkerSettings, place: Place, events: WorkerEventsSettings | None) -> PlacedSettings:
    """What is said of all of them together is left out: who stays when others come or go is the same as before."""
    if events is not None:
        events = events.model_copy(update={"ranks": 1})
    fields = {name: getattr(worker, name) for name in WorkerSettings.model_fields}
    fields |= {"id": f"{worker.id}#{place.name}", "ranks": 1, "dynamo": None, "kv_events": events}
    return PlacedSettings.model_construct(**fields, place=place, base=worker.id)


def _check_ids(model: str, workers: Sequence[WorkerSettings]) -> None:
    seen: set[str] = set()
    for worker in workers:
        if worker.id in seen:
            raise SettingsError([f"model {model}: two workers would be called {worker.id}; give one of them an id."])
        seen.add(worker.id)
