"""Combine the configured and the discovered workers of all models."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gateway.protocol.contradictions import ambiguous, repeated, roles_in_vain
from gateway.protocol.field_names import dotted
from gateway.protocol.worker_address import endpoint
from gateway.workers.worker_spec import ModelWorkers, WorkersError, WorkerSpec


def with_found(models: Sequence[ModelWorkers], found: Mapping[str, Sequence[WorkerSpec]]) -> tuple[ModelWorkers, ...]:
    """Return *models* with the discovered workers *found* appended, which are given by model name.

    Raises:
        WorkersError: if two workers conflict, for example by having the same id.
    """
    whole, urls, ids, everybody, roles = [], [], [], [], []
    for i, model in enumerate(models):
        more = found.get(model.name, ())
        placed = [(("models", i, "workers", j), worker) for j, worker in enumerate(model.workers)]
        where = "found" if model.is_searched_for else "workers_file"
        placed += [(("models", i, where, j), worker) for j, worker in enumerate(more)]
        urls += repeated([((*place, "url"), endpoint(worker.url)) for place, worker in placed])
        ids += repeated([((*place, "id"), worker.id) for place, worker in placed])
        everybody += [(place, worker.id, worker.url) for place, worker in placed]
        if not model.is_disaggregated:
            roles += roles_in_vain([(place, worker.role) for place, worker in placed])
        whole.append(replace(model, workers=(*model.workers, *more)))
    contradictions = urls or ids or ambiguous(everybody) or roles
    if contradictions:
        sentences = [f"{dotted(each.place)} {each.text} {dotted(each.other)}".rstrip() for each in contradictions]
        raise WorkersError([f"{sentence}." for sentence in sentences])
    return tuple(whole)
