"""`/admin/v1/batches`: show the batches of teams, and cancel them."""

from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from gateway.api.admin_access import Who, needs
from gateway.api.admin_v1 import paging
from gateway.api.admin_v1.json_body import raw_body
from gateway.api.admin_v1.paging import Listed
from gateway.api.admin_v1.parts import AdminGateway, GatewayOfApp, PartsOfApp
from gateway.api.times import rfc3339
from gateway.batch.batch import ENDED, Status, TeamBatch
from gateway.batch.batches import Batches
from gateway.batch.line_store import Progress
from gateway.protocol.errors import Forbidden, InvalidField, UnknownFile

router = APIRouter(prefix="/admin/v1/batches", tags=["batches"], dependencies=[Depends(needs("viewer"))])

MOST = 100
"""Maximum number of batches in a response, because the progress of each one is read from the store."""
USUAL = 50

TeamName = Annotated[str, Field(max_length=256)]


class BatchesQuery(paging.Query):
    team: TeamName | None = Field(
        default=None,
        description="team whose batches are listed, newest first. The empty name stands for callers without a team. "
        "Without this parameter, batches of all teams are listed: those that have not ended first, on one page.",
    )
    limit: Annotated[int, Field(ge=1, le=MOST)] = Field(
        default=USUAL, description="maximum number of batches to return"
    )
    after: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="value of `next` on the previous page of the same team"
    )


class BatchQuery(paging.Query):
    team: TeamName = Field(default="", description="team that owns the batch, empty for callers without a team")


class BatchResponse(BaseModel):
    object: Literal["batch"]
    id: str
    team: str = Field(description="team that owns the batch, empty for callers without a team")
    key: str = Field(description="id of the API key that created the batch, for which its lines run")
    status: Status
    endpoint: str
    models: list[str] = Field(description="models that the lines name, empty before the validation has ended")
    created_at: str = Field(description="RFC 3339 in UTC, as all times of a batch")
    expires_at: str = Field(description="end of the completion window")
    in_progress_at: str | None
    finalizing_at: str | None
    cancelling_at: str | None
    ended_at: str | None = Field(description="time at which the batch completed, failed, expired or was canceled")
    total: int = Field(description="number of lines, 0 before the validation has ended")
    completed: int
    failed: int
    can_cancel: bool


class BatchFileResponse(BaseModel):
    id: str
    filename: str
    bytes: int
    lines: int


class BatchFaultResponse(BaseModel):
    code: str
    message: str
    param: str | None
    line: int | None


class BatchUsageResponse(BaseModel):
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    reasoning_tokens: int


class BatchDetailResponse(BatchResponse):
    input_file: BatchFileResponse | None = Field(description="null if the file was deleted or has expired")
    output_file: BatchFileResponse | None
    error_file: BatchFileResponse | None
    errors: list[BatchFaultResponse] = Field(description="faults that the validation of the input file found")
    usage: BatchUsageResponse | None = Field(description="tokens of all answered lines, null before the end")
    metadata: dict[str, str] | None


@router.get(
    "",
    summary="List the batches of one team or of all teams, with the number of finished lines",
    response_model=Listed[BatchResponse],
)
async def list_batches(who: Who, gateway: GatewayOfApp, asked: Annotated[BatchesQuery, Query()]) -> Response:
    batches, team = _batches(gateway), who.team_within(asked.team)
    if team is None:
        if asked.after is not None:
            raise InvalidField("'after' needs 'team'. The list of all teams has one page.", param="after")
        found, has_more = await batches.of_all_teams(asked.limit)
        after = None
    else:
        found, has_more = await batches.page(team, after=asked.after, limit=asked.limit)
        after = found[-1][0].id if has_more else None
    data = [batch_response(*each) for each in found]
    return JSONResponse({"object": "list", "data": data, "has_more": has_more, "next": after})


@router.get(
    "/{batch_id}",
    summary="Return one batch with its files, its faults and its tokens",
    response_model=BatchDetailResponse,
)
async def read_batch(who: Who, gateway: GatewayOfApp, batch_id: str, asked: Annotated[BatchQuery, Query()]) -> Response:
    team = who.team if who.team is not None and not asked.team else asked.team
    if not who.sees(team):
        raise Forbidden(f"The admin key {who.id!r} is limited to the team {who.team!r}", code="other_team")
    batch, progress = await _batches(gateway).find(team, batch_id)
    info = batch.info
    shown = {
        **batch_response(batch, progress),
        "input_file": await _file(gateway, team, info.input_file_id),
        "output_file": await _file(gateway, team, info.output_file_id),
        "error_file": await _file(gateway, team, info.error_file_id),
        "errors": msgspec.to_builtins(info.errors),
        "usage": msgspec.to_builtins(info.usage),
        "metadata": info.metadata,
    }
    return JSONResponse(shown)


@router.post(
    "/{batch_id}/cancel",
    summary="Cancel a batch",
    description="Lines in flight may still finish. The output file gets the lines that were answered. Canceling a "
    "canceled batch changes nothing. A batch that has ended otherwise gets status 409.",
    response_model=BatchResponse,
    dependencies=[Depends(needs("operator")), Depends(raw_body)],
)
async def cancel_batch(
    who: Who, parts: PartsOfApp, gateway: GatewayOfApp, batch_id: str, asked: Annotated[BatchQuery, Query()]
) -> Response:
    batches = _batches(gateway)
    before, _ = await batches.find(asked.team, batch_id)
    batch, progress = await batches.cancel(asked.team, batch_id)
    if before.info.status not in {"cancelling", "cancelled"}:
        entry = parts.audit(
            who,
            "cancel",
            "batch",
            batch.id,
            team=batch.team or None,
            before={"status": before.info.status},
            after={"status": batch.info.status},
        )
        await parts.note(entry)
    return JSONResponse(batch_response(batch, progress))


def batch_response(batch: TeamBatch, progress: Progress) -> dict[str, Any]:
    """Return the response for *batch*, of which *progress* lines have ended."""
    info = batch.info
    ended_at = info.completed_at or info.failed_at or info.expired_at or info.cancelled_at
    return {
        "object": "batch",
        "id": batch.id,
        "team": batch.team,
        "key": info.key,
        "status": info.status,
        "endpoint": info.endpoint,
        "models": info.models,
        "created_at": rfc3339(info.created_at),
        "expires_at": rfc3339(info.expires_at),
        "in_progress_at": _time(info.in_progress_at),
        "finalizing_at": _time(info.finalizing_at),
        "cancelling_at": _time(info.cancelling_at),
        "ended_at": _time(ended_at),
        "total": progress.total,
        "completed": progress.completed,
        "failed": progress.failed,
        "can_cancel": info.status not in ENDED | {"finalizing", "cancelling"},
    }


def _batches(gateway: AdminGateway) -> Batches:
    assert gateway.batches is not None, "the routes exist only if the gateway serves batches"
    return gateway.batches


async def _file(gateway: AdminGateway, team: str, file_id: str | None) -> dict[str, Any] | None:
    if file_id is None or gateway.files is None:
        return None
    try:
        info = (await gateway.files.find(team, file_id)).info
    except UnknownFile:
        return None
    return {"id": file_id, "filename": info.filename, "bytes": info.bytes, "lines": info.lines}


def _time(seconds: int | None) -> str | None:
    return None if seconds is None else rfc3339(seconds)
