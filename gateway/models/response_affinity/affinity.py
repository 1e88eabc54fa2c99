"""The only worker that can answer, because it keeps the response that a request continues."""

from collections.abc import Callable

from cache_index import WorkerId
from gateway.models.model import Model
from gateway.models.response_affinity.owners import ResponseOwner, check_response_id
from gateway.protocol.body import Body
from gateway.protocol.errors import UnknownResponse


def keeping_worker(
    body: Body, model: Model, find: Callable[[str], ResponseOwner | None], team: str | None = None
) -> WorkerId | None:
    """The worker of *model* that keeps what *body* of *team* goes on from, as far as *find* knows.

    Raises:
        UnknownResponse: that worker is no more, or the response is another team's, or, where there are teams, it is not
            known whose it is.
        InvalidField: it cannot be the id of a response.
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
