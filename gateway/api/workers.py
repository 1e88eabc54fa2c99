"""The workers as an operator sees them, and draining: what `/warmgate/workers` and `/admin/v1/workers` both answer."""

from collections.abc import Iterator
from typing import Any

from cache_index import WorkerId
from gateway.errors import UnknownModel, UnknownWorker
from gateway.models import Model, Models


def worker_cards(models: Models) -> list[dict[str, Any]]:
    """One for each worker of each model, in the order of the settings."""
    return [card for model in models for card in cards_of(model)]


def cards_of(model: Model) -> Iterator[dict[str, Any]]:
    """One for each worker of *model*."""
    for worker in model.fleet:
        is_drained = worker.is_draining and worker.in_flight == 0
        state = worker.why_not_ready or "up"
        yield {
            "model": model.name,
            "worker": worker.id,
            "url": model.workers[worker.id].url,
            "state": "drained" if state == "draining" and is_drained else state,
            "up": worker.is_up,
            "asleep": worker.is_asleep,
            "draining": worker.is_draining,
            "drained": is_drained,
            "breaker_open": worker.breaker.is_open,
            "in_flight": worker.in_flight,
            "held_blocks": model.held_blocks(worker.id),
        }


def set_draining(models: Models, name: str, model: str | None, *, draining: bool) -> list[dict[str, Any]]:
    """Drain the worker *name*, or undrain it, for *model*, None: for all that it serves. Its cards, afterwards.

    Raises:
        UnknownWorker, UnknownModel: there is none of that name.
    """
    worker = WorkerId(name)
    chosen = [each for each in _chosen(models, model) if worker in each.workers]
    if not chosen:
        where = "" if model is None else f" of the model {model[:100]!r}"
        raise UnknownWorker(f"There is no worker {name[:200]!r}{where}", param="worker")
    for each in chosen:
        each.set_draining(worker, draining=draining)
    return [card for each in chosen for card in cards_of(each) if card["worker"] == worker]


def _chosen(models: Models, name: str | None) -> list[Model]:
    if name is None:
        return list(models)
    model = models.get(name)
    if model is None:
        raise UnknownModel(f"The model {name[:100]!r} is not configured; aliases do not count here", param="model")
    return [model]
