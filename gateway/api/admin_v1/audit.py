"""`/admin/v1/audit`: who changed what."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from gateway.api.admin_v1.access import needs
from gateway.api.admin_v1.paging import Listed, Page, listing, of_cursor
from gateway.api.admin_v1.parts import PartsOfApp

router = APIRouter(prefix="/admin/v1/audit", tags=["audit"], dependencies=[Depends(needs("viewer"))])


class AuditCard(BaseModel):
    time: str = Field(description="RFC 3339 in UTC")
    who: str = Field(description="id of the admin key")
    role: str
    action: str
    kind: str
    id: str = Field(description="of what was changed")
    team: str | None
    before: dict[str, Any] | None = Field(description="null: it was not there")
    after: dict[str, Any] | None = Field(description="null: it is not there any more")


@router.get("", summary="Every change by an administrator, the latest first", response_model=Listed[AuditCard])
async def read_audit(parts: PartsOfApp, page: Annotated[Page, Query()]) -> Response:
    told = await of_cursor(parts.store.audit(page.after, most=page.limit))
    return JSONResponse(listing([msgspec.to_builtins(entry) for entry in told.items], told.next))
