"""`/admin/v1/explain`: the worker that a request would be sent to, and why, as at `/warmgate/explain`."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse, Response

from gateway.api.admin_access import needs
from gateway.api.admin_v1.parts import GatewayOfApp
from gateway.api.explain import BODY, CHAT
from gateway.proxy.incoming import CallerGone, Incoming

router = APIRouter(prefix="/admin/v1/explain", tags=["gateway"])


@router.post(
    "",
    summary="Explain which worker a request would be sent to, without sending the request",
    openapi_extra={"requestBody": BODY},
    dependencies=[Depends(needs("viewer"))],
)
async def explain_request(
    request: Request,
    gateway: GatewayOfApp,
    path: Annotated[str, Query(description="endpoint for which the body is intended")] = CHAT,
    key: Annotated[str | None, Query(description="id of the key to assume for the request")] = None,
    team: Annotated[str | None, Query(description="team to assume for the request")] = None,
) -> Response:
    assert gateway.explainer is not None, "the route exists only with an explainer"
    try:
        incoming = Incoming(request.scope, request.receive)
        return JSONResponse(await gateway.explainer.explain(path, incoming, key=key, team=team))
    except CallerGone:
        return Response()  # the caller has gone
