"""Decide which of the workers that administrators added through the API are used.

1. A configured or discovered worker takes precedence over an added worker with the same model and address.
2. An added worker that cannot be used does not affect other workers. It stays in the store, and its status gives the
   reason.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal

from msgspec import structs

from gateway.protocol.errors import Conflict, GatewayError, UnknownModel, UnknownWorker
from gateway.protocol.worker_address import endpoint
from gateway.tenancy.teams.added_worker import AddedWorker
from gateway.tenancy.teams.change_result import check_new
from gateway.workers.discovery.source import WorkerSource
from gateway.workers.worker_sets import with_found
from gateway.workers.worker_spec import ModelWorkers, WorkerSpec, is_valid

Workers = tuple[WorkerSpec, ...]
Origin = str
"""Source of a worker: ``settings``, ``api``, or the `SourceSpec.kind` of the discovery source that found the worker."""
LeftOutState = Literal["model_not_configured", "listed_elsewhere", "id_taken", "not_valid"]


@dataclass(frozen=True, slots=True)
class KnownWorkers:
    """Configured models with their listed workers, and the workers that discovery found for these models."""

    models: Sequence[ModelWorkers]
    found: Mapping[WorkerSource, Workers] = field(default_factory=dict)

    def found_by_model(self) -> dict[str, list[WorkerSpec]]:
        """Return the discovered workers by model name. If two sources find the same address, only the first worker is
        returned.
        """
        by_model: dict[str, list[WorkerSpec]] = {}
        seen: dict[str, set[str]] = {}
        for source, workers in self.found.items():
            others = seen.setdefault(source.model, set())
            by_model.setdefault(source.model, []).extend(worker for worker in workers if worker.url not in others)
            others |= {worker.url for worker in workers}
        return by_model

    def origins(self) -> dict[tuple[str, str], Origin]:
        """Return the source of every worker. Keys are the model name and the `endpoint` of the worker's address."""
        origins: dict[tuple[str, str], Origin] = {}
        for model, origin, worker in self._all():
            origins.setdefault((model, endpoint(worker.url)), origin)
        return origins

    def origin(self, model: str, is_meant: Callable[[WorkerSpec], bool]) -> Origin | None:
        """Return the source of the worker of *model* that *is_meant* selects, or None if there is no such worker."""
        return next((origin for name, origin, worker in self._all() if name == model and is_meant(worker)), None)

    def _all(self) -> Iterator[tuple[str, Origin, WorkerSpec]]:
        for model in self.models:
            for worker in model.workers:
                yield model.name, "settings", worker
        for source, workers in self.found.items():
            for worker in workers:
                yield source.model, source.kind, worker


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Reason why an added worker is not in use."""

    state: LeftOutState
    reason: str


@dataclass(frozen=True, slots=True)
class AdmittedWorkers:
    models: tuple[ModelWorkers, ...]
    """All models, each with the workers that can be used together."""
    left_out: Mapping[str, LeftOut]
    """Reasons why certain added workers are not used, by `AddedWorker.name`."""


def admission(known: KnownWorkers, added: Iterable[AddedWorker]) -> AdmittedWorkers:
    """Return the configured models with their configured, discovered and added workers.

    Added workers that conflict with another worker are left out. Of two conflicting added workers, the one created
    first is used. O(workers).

    Raises:
        WorkersError: if a configured worker and a discovered worker conflict.
    """
    whole = with_found(known.models, known.found_by_model())
    taken = _Taken(whole)
    more: dict[str, list[WorkerSpec]] = {}
    left_out: dict[str, LeftOut] = {}
    for each in sorted(added, key=lambda worker: (worker.created_at, worker.name)):
        worker = _spec_of(each)
        if worker is None:
            left_out[each.name] = LeftOut("not_valid", "its address or id is not valid")
        elif (why := taken.refusal(each)) is not None:
            left_out[each.name] = why
        else:
            taken.take(each)
            more.setdefault(each.model, []).append(worker)
    models = [replace(model, workers=(*model.workers, *more.get(model.name, ()))) for model in whole]
    return AdmittedWorkers(tuple(models), left_out)


def check_addition(known: KnownWorkers, added: Mapping[str, AddedWorker], worker: AddedWorker) -> None:
    """Raise an error if the new worker *worker* conflicts with the workers in *known* and *added*.

    Raises:
        UnknownModel: if the model of the worker is not configured.
        Conflict: if the model already has a worker at this address, the id is taken, or too many workers were added.
    """
    if worker.model not in {model.name for model in known.models}:
        raise UnknownModel(
            f"The model {worker.model[:100]!r} is not configured; give its name, not an alias", param="model"
        )
    address = worker.address
    origin = known.origin(worker.model, lambda other: endpoint(other.url) == address)
    if origin is not None:
        text = f"The model {worker.model!r} already has a worker at this address, which {_where(origin)}"
        raise Conflict(text, param="url")
    check_new(worker, added)
    last = structs.replace(worker, created_at=inf)
    why = admission(known, [*added.values(), last]).left_out.get(worker.name)
    if why is not None:
        raise Conflict(f"The worker cannot be added: {why.reason}", param="id")


def not_removable(known: KnownWorkers, model: str, worker_id: str) -> GatewayError:
    """Return the error for a request to remove a worker that was not added through the API."""
    names = {worker_id, worker_id.rpartition("#")[0]}
    origin = known.origin(model, lambda worker: worker.id in names)
    if origin is None:
        text = f"There is no worker {worker_id[:200]!r} of the model {model[:100]!r}"
        return UnknownWorker(text, param="worker")
    text = f"The worker {worker_id[:200]!r} of the model {model[:100]!r} {_where(origin)}: it can be removed only there"
    return Conflict(text, param="worker")


def _where(origin: Origin) -> str:
    if origin == "settings":
        return "is listed in the configuration (models[].workers)"
    return f"was found by models[].{origin}"


class _Taken:
    """Worker ids and addresses that are already taken. The uniqueness rules are those of `with_found`."""

    def __init__(self, models: Iterable[ModelWorkers]) -> None:
        self._by_id: dict[str, str] = {}
        """Worker addresses by worker id. An id must have the same address in all models."""
        self._ids: dict[str, set[str]] = {}
        self._addresses: dict[str, set[str]] = {}
        for model in models:
            found = {worker.id: endpoint(worker.url) for worker in model.workers}
            self._by_id |= found
            self._ids[model.name], self._addresses[model.name] = set(found), set(found.values())

    def refusal(self, worker: AddedWorker) -> LeftOut | None:
        """Return why *worker* conflicts with a worker that is already in use, or None without a conflict."""
        if worker.model not in self._ids:
            return LeftOut("model_not_configured", f"the model {worker.model!r} is not configured")
        address = worker.address
        if address in self._addresses[worker.model]:
            return LeftOut(
                "listed_elsewhere", "the settings or a discovery source already have a worker at its address"
            )
        if worker.id in self._ids[worker.model] or self._by_id.get(worker.id, address) != address:
            return LeftOut("id_taken", f"the id {worker.id!r} is already used by another worker")
        return None

    def take(self, worker: AddedWorker) -> None:
        """Mark the id and address of *worker* as taken, after the caller has checked that `refusal` returns None."""
        address = worker.address
        self._by_id[worker.id] = address
        self._ids[worker.model].add(worker.id)
        self._addresses[worker.model].add(address)


def _spec_of(worker: AddedWorker) -> WorkerSpec | None:
    """Return the specification of an added worker, or None if its id or URL is not valid."""
    if "#" in worker.id:  # so are those called who share an address
        return None
    spec = WorkerSpec(url=worker.url.rstrip("/"), id=worker.id)
    return spec if is_valid(spec) else None
