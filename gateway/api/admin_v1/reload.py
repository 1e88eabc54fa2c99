"""`/admin/v1/reload`: reload the configuration of this gateway."""

from typing import Literal

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from gateway.api.admin_access import AdminKey, Who, needs
from gateway.api.admin_v1.bodies import RequestBody
from gateway.api.admin_v1.claims import IdempotencyKey, claim_of
from gateway.api.admin_v1.json_body import raw_body
from gateway.api.admin_v1.parts import AdminGateway, GatewayOfApp, Parts, PartsOfApp
from gateway.protocol.errors import Conflict

router = APIRouter(prefix="/admin/v1/reload", tags=["gateway"])


class ReloadResponse(BaseModel):
    object: Literal["reload"]
    outcome: Literal["applied", "unchanged"]
    needs_restart: list[str] = Field(description="changed settings that take effect only after a restart")


@router.post(
    "",
    summary="Reload and apply the configuration of this gateway",
    description="An invalid configuration gets status 409 with all errors, and nothing changes.",
    response_model=ReloadResponse,
    dependencies=[Depends(needs("operator")), Depends(raw_body)],
)
async def reload(
    who: Who, parts: PartsOfApp, gateway: GatewayOfApp, idempotency_key: IdempotencyKey = None
) -> Response:
    claim = claim_of(idempotency_key, admin=who.id, route="reload", body=RequestBody(), makes="configuration")
    return await parts.answers.once(claim, lambda: _reload(who, parts, gateway))


async def _reload(who: AdminKey, parts: Parts, gateway: AdminGateway) -> Response:
    if gateway.reload is None:
        raise Conflict("This gateway has no configuration to reload")
    reloaded = await gateway.reload()
    if reloaded.outcome == "refused":
        raise Conflict(f"The configuration was rejected and nothing has changed: {' '.join(reloaded.sentences)}")
    result = {"outcome": reloaded.outcome, "needs_restart": list(reloaded.needs_restart)}
    await parts.note(parts.audit(who, "reload", "settings", "configuration", after=result))
    return JSONResponse({"object": "reload", **result})
