"""`/admin/v1/teams/{name}/credits`: reduce the recorded usage of a team's budget."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from gateway.api.admin_access import AdminKey, Who, needs
from gateway.api.admin_v1.bodies import CreditBody
from gateway.api.admin_v1.claims import IdempotencyKey, claim_of
from gateway.api.admin_v1.json_body import body, takes
from gateway.api.admin_v1.parts import AdminGateway, GatewayOfApp, Parts, PartsOfApp
from gateway.protocol.errors import Conflict
from gateway.tenancy.quota.budgets import Budget, BudgetMeasure

router = APIRouter(prefix="/admin/v1/teams", tags=["teams"])


class CreditResponse(BaseModel):
    object: Literal["credit"]
    team: str
    measure: BudgetMeasure
    key: str | None
    model: str | None
    used_before: float = Field(description="usage in the current period before the credit, including reservations")
    used: float = Field(description="usage in the current period after the credit")


@router.post(
    "/{name}/credits",
    summary="Reduce the recorded usage of a team's budget",
    description="Reduces the usage of a limit in the current day or month. The ledger is unchanged; the audit log "
    "records the caller. A request repeated with the same `idempotency-key` at this gateway has no further effect.",
    response_model=CreditResponse,
    openapi_extra=takes(CreditBody),
    dependencies=[Depends(needs("owner"))],
)
async def give_credit(  # noqa: PLR0917  # FastAPI names them
    name: str,
    who: Who,
    parts: PartsOfApp,
    gateway: GatewayOfApp,
    wanted: Annotated[CreditBody, Depends(body(CreditBody))],
    idempotency_key: IdempotencyKey = None,
) -> Response:
    claim = claim_of(idempotency_key, admin=who.id, route=f"teams/{name}/credits", body=wanted, makes=name)
    return await parts.answers.once(claim, lambda: _give(name, who, parts, gateway, wanted))


async def _give(name: str, who: AdminKey, parts: Parts, gateway: AdminGateway, wanted: CreditBody) -> Response:
    if gateway.budgets is None:
        raise Conflict("This gateway does not track budgets")
    await parts.entities.team(name)  # there is one
    budget = Budget(name, wanted.measure, wanted.key, wanted.model)
    before, after = await gateway.budgets.refund(budget, wanted.amount)
    said = {"measure": wanted.measure, "key": wanted.key, "model": wanted.model}
    entry = parts.audit(
        who, "credit", "team", name, team=name, before={**said, "used": before}, after={**said, "used": after}
    )
    await parts.note(entry)
    return JSONResponse({"object": "credit", "team": name, **said, "used_before": before, "used": after})
