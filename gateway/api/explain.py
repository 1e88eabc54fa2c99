"""Route ``POST /warmgate/explain``: show where a request would be routed now and why, without sending it."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse, Response

from cache_index import WorkerId
from gateway.api.admin_access import needs
from gateway.models.model import Model
from gateway.models.registry import Models
from gateway.models.response_affinity.affinity import keeping_worker
from gateway.models.response_affinity.owners import ResponseOwners
from gateway.models.route_chooser import RouteChooser, RouteQuery
from gateway.models.routes.route import BY_WEIGHT, RouteChoice
from gateway.protocol.body import Body
from gateway.protocol.endpoints.endpoint import Endpoint
from gateway.protocol.errors import InvalidField
from gateway.proxy.bodies.bodies import Bodies
from gateway.proxy.incoming import CallerGone, Incoming
from gateway.workers.kv_events.feed import Trust
from routing.candidate import Candidate
from routing.explanation import Explanation

router = APIRouter(tags=["admin"], dependencies=[Depends(needs("viewer"))])

CHAT = "/v1/chat/completions"

BODY = {  # for the description of the API
    "required": True,
    "description": "body of the request to explain, as a form if the endpoint takes forms",
    "content": {
        "application/json": {"schema": {"type": "object"}},
        "multipart/form-data": {"schema": {"type": "object"}},
    },
}


class Explainer:
    """Explanation of routing decisions. It reads a request body in the same way as the proxy and changes no state.

    The explanation contains no text of the prompt. *stream_state* returns how reliable a worker's KV events are, or
    None if the worker has no event stream.
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
        self._chooser = RouteChooser(models, owners.peek)
        self._stream_state = stream_state
        self._bodies = bodies

    async def explain(
        self, path: str, incoming: Incoming, *, key: str | None = None, team: str | None = None
    ) -> dict[str, Any]:
        """Return an explanation, as JSON values, of how *incoming* would be routed if it were sent to *path*.

        *key* and *team* are the key and team to assume for routing rules that depend on them.

        Raises:
            ClientError: if the path is unknown, or the request is invalid for a completion.
            CallerGone: if the client disconnected before it had sent the whole body.
        """
        endpoint = self._endpoint(path)
        self._bodies.check_memory()
        share = self._bodies.share()
        try:
            raw = await self._bodies.receive(incoming, endpoint, share)
            body = await self._bodies.read(endpoint, raw, incoming)
            return await self._explained(path, raw, body, incoming, key=key, team=team)
        finally:
            share.close()

    async def _explained(
        self, path: str, raw: bytes, body: Body, incoming: Incoming, *, key: str | None, team: str | None
    ) -> dict[str, Any]:
        asking = RouteQuery(path, raw, body, incoming.text_of, key=key, team=team)
        model, choice = await self._chooser.model(asking, peeks=True)
        model.engine_fields.check(body)
        exact = await model.exact_prompt(path, raw, body)
        keeper = keeping_worker(body, model, self._owners.peek, team)
        request = model.request(body, incoming.text_of, keeper, exact, team=team or "")
        if model.pulls is not None:
            request = model.pulls.allowed(request, path, body)
        if model.prefill_decode is None:
            return {"route": self._route(choice), **self._explanation(model, model.dispatch_queue.explain(request))}
        explanation = model.dispatch_queue.explain(model.prefill_decode.divided(request, path, body))
        prefill = model.prefill_decode.explain(explanation, model.dispatch_queue.now)
        return {"route": self._route(choice), **self._explanation(model, explanation), "prefill": prefill}

    def _endpoint(self, path: str) -> Endpoint:
        endpoint = self._endpoints.get(path)
        if endpoint is None:
            raise InvalidField(f"'path' must be one of {', '.join(self._endpoints)}", param="path")
        return endpoint

    def _route(self, choice: RouteChoice | None) -> dict[str, Any] | None:
        """Return why a route selected the model, or None if the requested name belongs to a single model."""
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
            "share": round(route.variants.shares.get(choice.model, 0.0), 6) if by_weight else None,
            "shares": {name: round(share, 6) for name, share in route.variants.shares.items()},
        }

    def _explanation(self, model: Model, explanation: Explanation) -> dict[str, Any]:
        request = explanation.request
        return {
            "model": model.name,
            "configured_strategy": model.strategy,
            "strategy": explanation.strategy,
            "effective_strategy": explanation.effective,
            "reason": explanation.reason,
            "fallbacks": list(model.fallbacks.ids),
            "prompt_bytes": request.prompt_bytes,
            "prompt_tokens": round(request.prompt_tokens, 1),
            "prompt_blocks": request.prefix.blocks,
            "exact_tokens": bool(request.exact),
            "waits_for": explanation.waits_for,
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
        """Return the state of a worker, without its rank among the candidates."""
        load = candidate.load
        return {
            "worker": candidate.worker,
            "rank": None,
            "hit_blocks": candidate.hit_blocks,
            "hit_tokens": round(candidate.hit_tokens, 1),
            "hit_source": candidate.source,
            "hit_load_s": _seconds(candidate.load_s),
            "pull": _pull(candidate),
            "evicts_s": _seconds(candidate.evicts_s),
            "displaces_s": _seconds(candidate.displaces_s),
            "zone_penalty_s": _seconds(candidate.zone_penalty_s),
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
    summary="Explain which worker a request would be sent to, without sending the request",
    openapi_extra={"requestBody": BODY},
)
async def explain(
    request: Request,
    path: Annotated[str, Query(description="endpoint for which the body is intended")] = CHAT,
    key: Annotated[str | None, Query(description="id of the key to assume for the request")] = None,
    team: Annotated[str | None, Query(description="team to assume for the request")] = None,
) -> Response:
    explainer: Explainer = request.app.state.explainer
    try:
        return JSONResponse(await explainer.explain(path, Incoming(request.scope, request.receive), key=key, team=team))
    except CallerGone:
        return Response()  # the caller has gone


def _seconds(seconds: float) -> float:
    """Round seconds to microseconds, because predictions are not more precise."""
    return round(seconds, 6)


def _pull(candidate: Candidate) -> dict[str, Any] | None:
    """Return what the worker would pull from another worker, as JSON values, or None."""
    pull = candidate.pull
    if pull is None:
        return None
    return {"source": pull.source, "tokens": round(pull.tokens, 1), "load_s": _seconds(pull.load_s)}
