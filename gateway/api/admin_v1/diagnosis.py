"""`/admin/v1/diagnosis`: return the facts from which findings are derived, and the findings."""

from typing import Any

import msgspec
from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from gateway.api.admin_access import needs
from gateway.api.admin_v1.findings.finding import Finding, Severity
from gateway.api.admin_v1.findings.rules import diagnosed
from gateway.api.admin_v1.gateway_facts import GatewayFacts
from gateway.api.admin_v1.paging import Listed, listing
from gateway.api.admin_v1.parts import GatewayOfApp

router = APIRouter(prefix="/admin/v1/diagnosis", tags=["gateway"])


class FindingResponse(BaseModel):
    severity: Severity
    code: str
    model: str | None
    worker: str | None
    team: str | None
    fallback: str | None
    text: str
    remedy: str = Field(description="instruction that helps the operator to fix the problem")
    page: str = Field(description="section of the documentation about this kind of finding")


@router.get(
    "",
    summary="Return the facts about this gateway and its workers that `warmgate doctor` checks",
    response_model=GatewayFacts,
    dependencies=[Depends(needs("viewer"))],
)
async def show_facts(gateway: GatewayOfApp) -> Response:
    return Response(msgspec.json.encode(gateway.facts()), media_type="application/json")


@router.get(
    "/findings",
    summary="List what `warmgate doctor` finds at this gateway, most severe first",
    response_model=Listed[FindingResponse],
    dependencies=[Depends(needs("viewer"))],
)
async def show_findings(gateway: GatewayOfApp) -> Response:
    return JSONResponse(listing([finding_response(each) for each in diagnosed(gateway.facts())], None))


def finding_response(finding: Finding) -> dict[str, Any]:
    """Return *finding* as JSON values."""
    return {
        "severity": finding.severity,
        "code": finding.code,
        "model": finding.model,
        "worker": finding.worker,
        "team": finding.team,
        "fallback": finding.fallback,
        "text": finding.text,
        "remedy": finding.remedy,
        "page": finding.page,
    }
