"""Decides which of the workers that administrators added are in use, beside listed and discovered ones.

1. A listed or discovered worker wins over an added one at the same address of the same model.
2. An added worker that cannot be in use does no harm to the others. It stays in the store with a reason.
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
"""Origin of a worker: ``settings``, ``api``, or the `SourceSpec.kind` that found it."""
LeftOutState = Literal["model_not_configured", "listed_elsewhere", "id_taken", "not_valid"]


@dataclass(frozen=True, slots=True)
class KnownWorkers:
    """Models with the workers that the settings list, and the workers that were found for them."""

    models: Sequence[ModelWorkers]
    found: Mapping[WorkerSource, Workers] = field(default_factory=dict)

    def found_by_model(self) -> dict[str, list[WorkerSpec]]:
        """Return those that were found for each model, by its name; of two at the same address the first."""
        by_model: dict[str, list[WorkerSpec]] = {}
        seen: dict[str, set[str]] = {}
        for source, workers in self.found.items():
            others = seen.setdefault(source.model, set())
            by_model.setdefault(source.model, []).extend(worker for worker in workers if worker.url not in others)
            others |= {worker.url for worker in workers}
        return by_model

    def origins(self) -> dict[tuple[str, str], Origin]:
        """Return where each worker comes from, by model and `endpoint` of its address."""
        origins: dict[tuple[str, str], Origin] = {}
        for model, origin, worker in self._all():
            origins.setdefault((model, endpoint(worker.url)), origin)
        return origins

    def origin(self, model: str, is_meant: Callable[[WorkerSpec], bool]) -> Origin | None:
        """Return where a worker of *model* comes from; None: there is no such worker."""
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
    """Reason for which an added worker is not in use."""

    state: LeftOutState
    reason: str


@dataclass(frozen=True, slots=True)
class AdmittedWorkers:
    models: tuple[ModelWorkers, ...]
    """Models with all workers that can be in use together."""
    left_out: Mapping[str, LeftOut]
    """Added workers that are not in use, by `AddedWorker.name`."""


def admission(known: KnownWorkers, added: Iterable[AddedWorker]) -> AdmittedWorkers:
    """Return the models of *known* with the workers that were found, and as many of those *added* as can be in use.

    Of two that contradict each other the earlier one is in use. O(workers).

    Raises:
        WorkersError: what is listed and what was found contradict each other.
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
    """Check that *worker* can be in use beside all others.

    Raises:
        UnknownModel: its model is not configured.
        Conflict: its model has a worker at that address, another worker has its id, or too many were added.
    """
    if worker.model not in {model.name for model in known.models}:
        raise UnknownModel(
            f"The model {worker.model[:100]!r} is not configured; give its name, not an alias", param="model"
        )
    address = worker.address
    origin = known.origin(worker.model, lambda other: endpoint(other.url) == address)
    if origin is not None:
        text = f"The model {worker.model!r} has a worker at that address already, which {_where(origin)}"
        raise Conflict(text, param="url")
    check_new(worker, added)
    last = structs.replace(worker, created_at=inf)
    why = admission(known, [*added.values(), last]).left_out.get(worker.name)
    if why is not None:
        raise Conflict(f"The worker cannot be added: {why.reason}", param="id")


def not_removable(known: KnownWorkers, model: str, worker_id: str) -> GatewayError:
    """Return why the worker *worker_id* of *model*, which was not added by the API, cannot be removed by it."""
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
    """Ids and addresses that the workers of *models* have, by the rules of `with_found`."""

    def __init__(self, models: Iterable[ModelWorkers]) -> None:
        self._by_id: dict[str, str] = {}
        """Addresses: an id stands for one in all models."""
        self._ids: dict[str, set[str]] = {}
        self._addresses: dict[str, set[str]] = {}
        for model in models:
            found = {worker.id: endpoint(worker.url) for worker in model.workers}
            self._by_id |= found
            self._ids[model.name], self._addresses[model.name] = set(found), set(found.values())

    def refusal(self, worker: AddedWorker) -> LeftOut | None:
        """Return why *worker* cannot be in use beside those that are here; None: it can."""
        if worker.model not in self._ids:
            return LeftOut("model_not_configured", f"the model {worker.model!r} is not configured")
        address = worker.address
        if address in self._addresses[worker.model]:
            return LeftOut("listed_elsewhere", "the settings list a worker at its address, or discovery finds one")
        if worker.id in self._ids[worker.model] or self._by_id.get(worker.id, address) != address:
            return LeftOut("id_taken", f"the id {worker.id!r} is that of another worker")
        return None

    def take(self, worker: AddedWorker) -> None:
        """Add *worker*, which `refusal` accepts."""
        address = worker.address
        self._by_id[worker.id] = address
        self._ids[worker.model].add(worker.id)
        self._addresses[worker.model].add(address)


def _spec_of(worker: AddedWorker) -> WorkerSpec | None:
    """Return *worker* as if it were listed; None: another version of the gateway wrote it, by other rules."""
    if "#" in worker.id:  # so are those called who share an address
        return None
    spec = WorkerSpec(url=worker.url.rstrip("/"), id=worker.id)
    return spec if is_valid(spec) else None
