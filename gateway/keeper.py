"""The one worker that can answer, because it keeps the response that a request goes on from."""

from collections.abc import Callable

from cache_index import WorkerId
from gateway.body import Body
from gateway.errors import UnknownResponse
from gateway.model import Model
from gateway.response_owners import Owner, check_response_id


def keeper_of(
    body: Body, model: Model, find: Callable[[str], Owner | None], team: str | None = None
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
            f"The response {body.previous_response_id[:100]!r} is not kept by any worker", param="previous_response_id"
        )
    if owner is None or owner.model != model.name:
        return None
    if owner.worker not in model.workers:
        raise UnknownResponse(
            f"The worker that kept the response {body.previous_response_id[:100]!r} is gone",
            param="previous_response_id",
        )
    return owner.worker
