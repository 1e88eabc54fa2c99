"""Affinity of requests to workers: a request goes to the worker that stores the response that it continues."""

from collections.abc import Callable

from cache_index import WorkerId
from gateway.models.model import Model
from gateway.models.response_affinity.owners import ResponseOwner, check_response_id
from gateway.protocol.body import Body
from gateway.protocol.errors import UnknownResponse


def keeping_worker(
    body: Body, model: Model, find: Callable[[str], ResponseOwner | None], team: str | None = None
) -> WorkerId | None:
    """Return the worker of *model* that stores the response continued by *body*, or None. *find* returns owners.

    Raises:
        UnknownResponse: if that worker is gone, or if the response belongs to another team or to an unknown team.
        InvalidField: if `previous_response_id` is not a valid response id.
    """
    if body.previous_response_id is None:
        return None
    check_response_id(body.previous_response_id, "previous_response_id")
    owner = find(body.previous_response_id)
    if (None if owner is None else owner.team) != team:
        raise UnknownResponse(
            f"The response {body.previous_response_id[:100]!r} is not stored by any worker",
            param="previous_response_id",
        )
    if owner is None or owner.model != model.name:
        return None
    if owner.worker not in model.workers:
        raise UnknownResponse(
            f"The worker that stored the response {body.previous_response_id[:100]!r} is gone",
            param="previous_response_id",
        )
    return owner.worker
