"""`/admin/v1/teams/{name}/credits`: a part of a budget that was used is given back."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from gateway.api.admin_v1.access import AdminKey, Who, needs
from gateway.api.admin_v1.bodies import CreditBody
from gateway.api.admin_v1.claims import IdempotencyKey, claim_of
from gateway.api.admin_v1.json_body import body, takes
from gateway.api.admin_v1.parts import AdminGateway, GatewayOfApp, Parts, PartsOfApp
from gateway.errors import Conflict
from gateway.quota.budgets import Budget, BudgetMeasure

router = APIRouter(prefix="/admin/v1/teams", tags=["teams"])


class CreditCard(BaseModel):
    object: Literal["credit"]
    team: str
    measure: BudgetMeasure
    key: str | None
    model: str | None
    used_before: float = Field(description="in the present day or month, with what is reserved")
    used: float = Field(description="the same from now on")


@router.post(
    "/{name}/credits",
    summary="Give a part of a budget back",
    description="The present day's or month's use of a limit is lowered. The ledger stays as it is; the audit log says "
    "who did it. Repeated with the same `idempotency-key` at this gateway, it does nothing more.",
    response_model=CreditCard,
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
        raise Conflict("This gateway counts no budgets")
    await parts.entities.team(name)  # there is one
    budget = Budget(name, wanted.measure, wanted.key, wanted.model)
    before, after = await gateway.budgets.give(budget, wanted.amount)
    said = {"measure": wanted.measure, "key": wanted.key, "model": wanted.model}
    entry = parts.audit(
        who, "credit", "team", name, team=name, before={**said, "used": before}, after={**said, "used": after}
    )
    await parts.note(entry)
    return JSONResponse({"object": "credit", "team": name, **said, "used_before": before, "used": after})
