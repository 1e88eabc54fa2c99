"""``POST /warmgate/explain``: where a completion would go at this moment and why, without sending it anywhere."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse, Response

from cache_index import WorkerId
from gateway.api.admin_access import require_admin
from gateway.bodies.bodies import Bodies
from gateway.body import Body
from gateway.endpoints.endpoint import Endpoint
from gateway.engine_fields import check_engine_fields
from gateway.errors import InvalidField
from gateway.incoming import CallerGone, Incoming
from gateway.keeper import keeper_of
from gateway.kv_events.feed import Trust
from gateway.model import Model
from gateway.models import Models
from gateway.response_owners import ResponseOwners
from gateway.rollout.chooser import Asking, Chooser
from gateway.rollout.route import BY_WEIGHT, Choice
from routing.candidate import Candidate
from routing.explanation import Explanation

router = APIRouter(tags=["admin"], dependencies=[Depends(require_admin)])

CHAT = "/v1/chat/completions"

_BODY = {
    "required": True,
    "description": "the body of the request to be explained; a form where its endpoint takes forms",
    "content": {
        "application/json": {"schema": {"type": "object"}},
        "multipart/form-data": {"schema": {"type": "object"}},
    },
}


class Explainer:
    """Reads a body as the proxy does, and asks the dispatcher of its model what it would do. Changes nothing.

    The answer holds nothing of the prompt. *stream_state* says how far what a worker's engine tells can be relied on;
    None: nobody listens to it.
    """

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        models: Models,
        owners: ResponseOwners,
        *,
        stream_state: Callable[[WorkerId], Trust | None],
        bodies: Bodies,
    ) -> None:
        self._endpoints = endpoints
        self._models = models
        self._owners = owners
        self._chooser = Chooser(models, owners.peek)
        self._stream_state = stream_state
        self._bodies = bodies

    async def explain(
        self, path: str, incoming: Incoming, *, key: str | None = None, team: str | None = None
    ) -> dict[str, Any]:
        """What would happen to *incoming* if it had been sent to *path*, as values of JSON.

        *key* and *team* are whose request it is taken for, where a route chooses by that.

        Raises:
            ClientError: what is wrong with it, as a completion would be told; or there is no such path.
            CallerGone: it ended before the body did.
        """
        endpoint = self._endpoint(path)
        self._bodies.check_memory()
        share = self._bodies.share()
        try:
            raw = await self._bodies.receive(incoming, endpoint, share)
            body = await self._bodies.read(endpoint, raw, incoming.content_type)
            return await self._explained(path, raw, body, incoming, key=key, team=team)
        finally:
            share.close()

    async def _explained(
        self, path: str, raw: bytes, body: Body, incoming: Incoming, *, key: str | None, team: str | None
    ) -> dict[str, Any]:
        asking = Asking(path, raw, body, incoming.text_of, key=key, team=team)
        model, choice = await self._chooser.model(asking, peeks=True)
        check_engine_fields(body.engine_fields, model.allowed_engine_fields)
        exact = await model.exact_prompt(path, raw, body)
        request = model.request(body, incoming.text_of, keeper_of(body, model, self._owners.peek, team), exact)
        if model.division is None:
            return {"route": self._route(choice), **self._told(model, model.turnstile.explain(request))}
        explanation = model.turnstile.explain(model.division.divided(request, path, body))
        prefill = model.division.explain(explanation, model.turnstile.now)
        return {"route": self._route(choice), **self._told(model, explanation), "prefill": prefill}

    def _endpoint(self, path: str) -> Endpoint:
        endpoint = self._endpoints.get(path)
        if endpoint is None:
            raise InvalidField(f"'path' must be one of {', '.join(self._endpoints)}", param="path")
        return endpoint

    def _route(self, choice: Choice | None) -> dict[str, Any] | None:
        """Why it is that model, where the name stands for several."""
        routes = self._models.routes
        route = None if choice is None or routes is None else routes.get(choice.route)
        if choice is None or route is None:
            return None
        by_weight = choice.rule == BY_WEIGHT
        return {
            "name": route.name,
            "model": choice.model,
            "rule": choice.rule,
            "sticky": route.sticky,
            "share": round(route.variants.shares[choice.model], 6) if by_weight else None,
            "shares": {name: round(share, 6) for name, share in route.variants.shares.items()},
        }

    def _told(self, model: Model, explanation: Explanation) -> dict[str, Any]:
        request = explanation.request
        return {
            "model": model.name,
            "configured_strategy": model.strategy,
            "strategy": explanation.strategy,
            "effective_strategy": explanation.effective,
            "reason": explanation.reason,
            "fallbacks": list(model.cascade.ids),
            "prompt_bytes": request.prompt_bytes,
            "prompt_tokens": round(request.prompt_tokens, 1),
            "prompt_blocks": request.prefix.blocks,
            "exact_tokens": bool(request.exact),
            "workers": [
                *(
                    self._worker(place.candidate)
                    | {
                        "rank": place.rank,
                        "predicted_ttft_s": _seconds(place.predicted_ttft_s),
                        "cost_s": None if place.cost_s is None else _seconds(place.cost_s),
                    }
                    for place in explanation.places
                ),
                *(self._worker(each.candidate) | {"why_not": each.why_not} for each in explanation.excluded),
            ],
        }

    def _worker(self, candidate: Candidate) -> dict[str, Any]:
        """A worker as it stands outside of every order."""
        load = candidate.load
        return {
            "worker": candidate.worker,
            "rank": None,
            "hit_blocks": candidate.hit_blocks,
            "hit_tokens": round(candidate.hit_tokens, 1),
            "hit_source": candidate.source,
            "hit_load_s": _seconds(candidate.load_s),
            "evicts_s": _seconds(candidate.evicts_s),
            "kv_stream": self._stream_state(candidate.worker),
            "load": {
                "backlog_s": _seconds(load.backlog_s),
                "pending": load.pending,
                "decodes": load.decodes,
                "busy_share": round(load.busy_share, 4),
            },
            "predicted_ttft_s": None,
            "cost_s": None,
            "admits": candidate.admits,
            "why_not": None,
        }


@router.post(
    "/warmgate/explain",
    summary="Where a request would go and why, without sending it",
    openapi_extra={"requestBody": _BODY},
)
async def explain(
    request: Request,
    path: Annotated[str, Query(description="the endpoint that the body is meant for")] = CHAT,
    key: Annotated[str | None, Query(description="id of the key that it is taken to come with")] = None,
    team: Annotated[str | None, Query(description="the team that it is taken to be of")] = None,
) -> Response:
    explainer: Explainer = request.app.state.explainer
    try:
        return JSONResponse(await explainer.explain(path, Incoming(request.scope, request.receive), key=key, team=team))
    except CallerGone:
        return Response()  # for nobody


def _seconds(seconds: float) -> float:
    """To the microsecond: nothing here is known better."""
    return round(seconds, 6)
