"""`/admin/v1/audit`: list administrative changes and who made them."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from gateway.api.admin_access import needs
from gateway.api.admin_v1.paging import Listed, PageQuery, listing, of_cursor
from gateway.api.admin_v1.parts import PartsOfApp

router = APIRouter(prefix="/admin/v1/audit", tags=["audit"], dependencies=[Depends(needs("viewer"))])


class AuditResponse(BaseModel):
    time: str = Field(description="time of the change, RFC 3339 in UTC")
    who: str = Field(description="ID of the admin key that made the change")
    role: str
    action: str
    kind: str
    id: str = Field(description="id of the changed object")
    team: str | None
    before: dict[str, Any] | None = Field(description="state before the change; null if the object was created")
    after: dict[str, Any] | None = Field(description="state after the change; null if the object was deleted")


@router.get("", summary="List administrative changes, latest first", response_model=Listed[AuditResponse])
async def read_audit(parts: PartsOfApp, page: Annotated[PageQuery, Query()]) -> Response:
    found = await of_cursor(parts.store.audit(page.after, most=page.limit))
    return JSONResponse(listing([msgspec.to_builtins(entry) for entry in found.items], found.next))
