"""Worker states in `/admin/v1`, and the draining of workers by name."""

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET, UnsetType

from cache_index import WorkerId
from gateway.models.model import Model
from gateway.models.registry import Models
from gateway.protocol.errors import UnknownModel, UnknownWorker
from gateway.workers.draining import Draining
from gateway.workers.shared_address.placed_worker import meant_by


def worker_states(models: Models, draining: Draining) -> list[dict[str, Any]]:
    """Return the state of each worker of each model, in configured order."""
    return [each for model in models for each in states_of(model, draining)]


def states_of(model: Model, draining: Draining) -> Iterator[dict[str, Any]]:
    """Yield the state of each worker of *model*."""
    for worker in model.fleet:
        own = model.fleet.bookings.own_in_flight(worker.id)
        is_drained = worker.is_draining and (worker.in_flight if draining.is_shared else own) == 0
        state = worker.why_not_ready or "up"
        yield {
            "model": model.name,
            "worker": worker.id,
            "url": model.workers[worker.id].url,
            "tier": worker.tier,
            "role": worker.role,
            "state": "drained" if state == "draining" and is_drained else state,
            "up": worker.is_up,
            "asleep": worker.is_asleep,
            "draining": worker.is_draining,
            "draining_by": list(draining.words(model.name, worker.id)),
            "drained": is_drained,
            "hand_over_in_s": draining.hand_over_in_s(model.name, worker.id),
            "breaker_open": worker.breaker.is_open,
            "in_flight": worker.in_flight,
            "held_blocks": model.held_blocks(worker.id),
        }


def drain(
    models: Models,
    draining: Draining,
    name: str,
    model: str | None,
    *,
    hand_over_after_s: float | UnsetType | None = UNSET,
) -> list[dict[str, Any]]:
    """Drain the worker *name* for *model*, or for all of its models if *model* is None.

    Return its states after that.

    If several workers share an address, the ID of the address selects all of them.

    Streams that can be continued move to other workers after *hand_over_after_s*, never if it is None, and at the
    configured time if it is UNSET.

    Raises:
        UnknownWorker, UnknownModel: if the worker or the model does not exist.
    """
    chosen = _chosen(models, name, model)
    for each, worker in chosen:
        draining.drain(each, worker, hand_over_after_s=hand_over_after_s)
    return _worker_responses(chosen, draining)


def undrain(models: Models, draining: Draining, name: str, model: str | None) -> list[dict[str, Any]]:
    """Undo the draining of a worker and return the states of the worker.

    A worker marked for draining in the settings continues to drain.

    Raises:
        UnknownWorker, UnknownModel: if the worker or the model does not exist.
    """
    chosen = _chosen(models, name, model)
    for each, worker in chosen:
        draining.undrain(each, worker)
    return _worker_responses(chosen, draining)


def _worker_responses(chosen: list[tuple[Model, WorkerId]], draining: Draining) -> list[dict[str, Any]]:
    models = dict.fromkeys(model for model, _ in chosen)
    return [each for model in models for each in states_of(model, draining) if (model, each["worker"]) in chosen]


def _chosen(models: Models, worker: str, name: str | None) -> list[tuple[Model, WorkerId]]:
    """Return the workers that match the ID *worker*, for the model *name* or for all models."""
    chosen = [(each, meant) for each in _named(models, name) for meant in meant_by(worker, each.workers)]
    if not chosen:
        where = "" if name is None else f" of the model {name[:100]!r}"
        raise UnknownWorker(f"There is no worker {worker[:200]!r}{where}", param="worker")
    return chosen


def _named(models: Models, name: str | None) -> list[Model]:
    if name is None:
        return list(models)
    model = models.get(name)
    if model is None:
        raise UnknownModel(f"The model {name[:100]!r} is not configured; give its name, not an alias", param="model")
    return [model]
