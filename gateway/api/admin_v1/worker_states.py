"""State of each worker as `/admin/v1` shows it, and draining by the name of a worker."""

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
    """One for each worker of each model, in the order of the settings."""
    return [each for model in models for each in states_of(model, draining)]


def states_of(model: Model, draining: Draining) -> Iterator[dict[str, Any]]:
    """One for each worker of *model*."""
    for worker in model.fleet:
        is_drained = worker.is_draining and model.fleet.bookings.own_in_flight(worker.id) == 0
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
    """Drain the worker *name* for *model*, None: for all that it serves. Return its states, afterwards.

    The id of an address that several share is all of them.

    Streams that can be continued go on elsewhere after *hand_over_after_s*; None: never, UNSET: as the settings say.

    Raises:
        UnknownWorker, UnknownModel: it does not exist.
    """
    chosen = _chosen(models, name, model)
    for each, worker in chosen:
        draining.drain(each, worker, hand_over_after_s=hand_over_after_s)
    return _worker_responses(chosen, draining)


def undrain(models: Models, draining: Draining, name: str, model: str | None) -> list[dict[str, Any]]:
    """Undo `drain` and return the states of the worker. A worker that drains by the settings goes on draining.

    Raises:
        UnknownWorker, UnknownModel: it does not exist.
    """
    chosen = _chosen(models, name, model)
    for each, worker in chosen:
        draining.undrain(each, worker)
    return _worker_responses(chosen, draining)


def _worker_responses(chosen: list[tuple[Model, WorkerId]], draining: Draining) -> list[dict[str, Any]]:
    models = dict.fromkeys(model for model, _ in chosen)
    return [each for model in models for each in states_of(model, draining) if (model, each["worker"]) in chosen]


def _chosen(models: Models, worker: str, name: str | None) -> list[tuple[Model, WorkerId]]:
    """Return the workers that *worker* means, for the model *name* or for all that it serves."""
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
