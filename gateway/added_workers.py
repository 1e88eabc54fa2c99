"""Which of the workers that administrators added can serve, beside those that the settings list and discovery finds.

1. What is listed or found wins: an added worker at the same address of the same model is not in use meanwhile.
2. An added worker that cannot be in use does no harm to the others. It stays in the store and says why.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Literal

from msgspec import structs
from pydantic import ValidationError

from gateway.discovery.source import Source, SourceKind
from gateway.errors import Conflict, GatewayError, UnknownModel, UnknownWorker
from gateway.settings import Settings, WorkerSettings, with_found
from gateway.settings.rules import endpoint
from gateway.teams.added_worker import AddedWorker
from gateway.teams.outcome import check_new

Workers = tuple[WorkerSettings, ...]
Origin = Literal["settings", "api"] | SourceKind
"""Where a worker comes from."""
LeftOutState = Literal["model_not_configured", "listed_elsewhere", "id_taken", "not_valid"]


@dataclass(frozen=True, slots=True)
class KnownWorkers:
    """Settings with the workers that they list, and those that were found for their models."""

    settings: Settings
    found: Mapping[Source, Workers] = field(default_factory=dict)

    def found_by_model(self) -> dict[str, list[WorkerSettings]]:
        """Return those that were found for each model, by its name; of two at the same address the first."""
        by_model: dict[str, list[WorkerSettings]] = {}
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

    def origin(self, model: str, is_meant: Callable[[WorkerSettings], bool]) -> Origin | None:
        """Return where a worker of *model* comes from; None: there is no such worker."""
        return next((origin for name, origin, worker in self._all() if name == model and is_meant(worker)), None)

    def _all(self) -> Iterator[tuple[str, Origin, WorkerSettings]]:
        for model in self.settings.models:
            for worker in model.workers:
                yield model.name, "settings", worker
        for source, workers in self.found.items():
            for worker in workers:
                yield source.model, source.kind, worker


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Why an added worker is not in use."""

    state: LeftOutState
    reason: str


@dataclass(frozen=True, slots=True)
class Admission:
    settings: Settings
    """With all workers that can be in use together."""
    left_out: Mapping[str, LeftOut]
    """Added workers that are not in use, by `AddedWorker.name`."""


def admission(known: KnownWorkers, added: Iterable[AddedWorker]) -> Admission:
    """Return the settings of *known* with the workers that were found, and as many of those *added* as can be in use.

    Of two that contradict each other the earlier one is in use. O(workers).

    Raises:
        SettingsError: what is listed and what was found contradict each other.
    """
    whole = with_found(known.settings, known.found_by_model())
    taken = _Taken(whole)
    more: dict[str, list[WorkerSettings]] = {}
    left_out: dict[str, LeftOut] = {}
    for each in sorted(added, key=lambda worker: (worker.created_at, worker.name)):
        worker = _settings_of(each)
        if worker is None:
            left_out[each.name] = LeftOut("not_valid", "its address or id is not valid")
        elif (why := taken.refusal(each)) is not None:
            left_out[each.name] = why
        else:
            taken.take(each)
            more.setdefault(each.model, []).append(worker)
    models = [
        model.model_copy(update={"workers": (*model.workers, *more[model.name])}) if model.name in more else model
        for model in whole.models
    ]
    return Admission(whole.model_copy(update={"models": tuple(models)}), left_out)


def check_addition(known: KnownWorkers, added: Mapping[str, AddedWorker], worker: AddedWorker) -> None:
    """Check that *worker* can be in use beside all others.

    Raises:
        UnknownModel: its model is not configured.
        Conflict: its model has a worker at that address, another worker has its id, or too many were added.
    """
    if worker.model not in {model.name for model in known.settings.models}:
        raise UnknownModel(
            f"The model {worker.model[:100]!r} is not configured; aliases do not count here", param="model"
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
    """Ids and addresses that the workers of *settings* have, by the rules of `with_found`."""

    def __init__(self, settings: Settings) -> None:
        self._by_id: dict[str, str] = {}
        """Addresses: an id stands for one in all models."""
        self._ids: dict[str, set[str]] = {}
        self._addresses: dict[str, set[str]] = {}
        for model in settings.models:
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
        """Have *worker* among them, which `refusal` lets in."""
        address = worker.address
        self._by_id[worker.id] = address
        self._ids[worker.model].add(worker.id)
        self._addresses[worker.model].add(address)


def _settings_of(worker: AddedWorker) -> WorkerSettings | None:
    """Return *worker* as if it were listed; None: another version of the gateway wrote it, by other rules."""
    if "#" in worker.id:  # so are those called who share an address
        return None
    try:
        return WorkerSettings(url=worker.url, id=worker.id)
    except ValidationError:
        return None
