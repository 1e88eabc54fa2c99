"""The one worker that can answer, because it keeps the response that a request goes on from."""

from collections.abc import Callable

from cache_index import WorkerId
from gateway.body import Body
from gateway.errors import UnknownResponse
from gateway.model import Model
from gateway.response_owners import Owner


def keeper_of(
    body: Body, model: Model, find: Callable[[str], Owner | None], team: str | None = None
) -> WorkerId | None:
    """The worker of *model* that keeps what *body* of *team* goes on from, as far as *find* knows.

    Raises:
        UnknownResponse: that worker is no more, or the response is another team's.
    """
    if body.previous_response_id is None:
        return None
    owner = find(body.previous_response_id)
    if owner is None or owner.model != model.name:
        return None
    if owner.team != team:
        raise UnknownResponse(
            f"The response {body.previous_response_id[:100]!r} is not kept by any worker", param="previous_response_id"
        )
    if owner.worker not in model.workers:
        raise UnknownResponse(
            f"The worker that kept the response {body.previous_response_id[:100]!r} is gone",
            param="previous_response_id",
        )
    return owner.worker
