"""`/admin/v1/diagnosis`: return the facts from which `warmgate doctor` derives its findings."""

import msgspec
from fastapi import APIRouter, Depends
from fastapi.responses import Response

from gateway.api.admin_access import needs
from gateway.api.admin_v1.gateway_facts import GatewayFacts
from gateway.api.admin_v1.parts import GatewayOfApp

router = APIRouter(prefix="/admin/v1/diagnosis", tags=["gateway"])


@router.get(
    "",
    summary="Return the facts about this gateway and its workers that `warmgate doctor` checks",
    response_model=GatewayFacts,
    dependencies=[Depends(needs("viewer"))],
)
async def show_facts(gateway: GatewayOfApp) -> Response:
    return Response(msgspec.json.encode(gateway.facts()), media_type="application/json")
