"""The workers as an operator sees them, and draining: what `/warmgate/workers` and `/admin/v1/workers` both answer."""

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET, UnsetType

from cache_index import WorkerId
from gateway.draining import Draining
from gateway.errors import UnknownModel, UnknownWorker
from gateway.model import Model
from gateway.models import Models
from gateway.ranks.placed_worker import meant_by


def worker_cards(models: Models, draining: Draining) -> list[dict[str, Any]]:
    """One for each worker of each model, in the order of the settings."""
    return [card for model in models for card in cards_of(model, draining)]


def cards_of(model: Model, draining: Draining) -> Iterator[dict[str, Any]]:
    """One for each worker of *model*."""
    for worker in model.fleet:
        is_drained = worker.is_draining and model.fleet.own_in_flight(worker.id) == 0
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
    """Drain the worker *name* for *model*, None: for all that it serves. Its cards, afterwards.

    The id of an address that several share is all of them.

    Streams that can be continued go on elsewhere after *hand_over_after_s*; None: never, UNSET: as the settings say.

    Raises:
        UnknownWorker, UnknownModel: there is none of that name.
    """
    chosen = _chosen(models, name, model)
    for each, worker in chosen:
        draining.drain(each, worker, hand_over_after_s=hand_over_after_s)
    return _cards(chosen, draining)


def undrain(models: Models, draining: Draining, name: str, model: str | None) -> list[dict[str, Any]]:
    """Take back what `drain` did. Who drains because the settings say so goes on. The worker's cards, afterwards.

    Raises:
        UnknownWorker, UnknownModel: there is none of that name.
    """
    chosen = _chosen(models, name, model)
    for each, worker in chosen:
        draining.undrain(each, worker)
    return _cards(chosen, draining)


def _cards(chosen: list[tuple[Model, WorkerId]], draining: Draining) -> list[dict[str, Any]]:
    models = dict.fromkeys(model for model, _ in chosen)
    return [card for model in models for card in cards_of(model, draining) if (model, card["worker"]) in chosen]


def _chosen(models: Models, worker: str, name: str | None) -> list[tuple[Model, WorkerId]]:
    """Who is meant by *worker*, for each model that is meant: the one called *name*, or all that it serves."""
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
        raise UnknownModel(f"The model {name[:100]!r} is not configured; aliases do not count here", param="model")
    return [model]
