"""`/admin/v1/requests`: show the latest requests of this gateway, why a worker was chosen, and what came of it."""

from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, Response
from pydantic import AwareDatetime, BaseModel, Field

from gateway.api.admin_access import Who, needs
from gateway.api.admin_v1 import paging
from gateway.api.admin_v1.paging import Listed, listing
from gateway.api.admin_v1.parts import AdminGateway, GatewayOfApp
from gateway.api.times import to_the_millisecond
from gateway.protocol.errors import UnknownEntity
from gateway.telemetry.receipts.receipt import ReceiptSummary
from gateway.telemetry.receipts.receipts import Receipts
from gateway.telemetry.receipts.ring import ReceiptFilter

router = APIRouter(prefix="/admin/v1/requests", tags=["requests"], dependencies=[Depends(needs("viewer"))])

STATUS = r"^([1-5]xx|[1-5][0-9]{2})$"
CURSOR = r"^[0-9]{1,15}$"

Text = Annotated[str, Field(min_length=1, max_length=256)]


class RequestsQuery(paging.Query):
    team: Text | None = None
    model: Text | None = Field(default=None, description="configured name of the model")
    worker: Text | None = Field(
        default=None, description="id of the worker or fallback that answered or was tried last"
    )
    status: Annotated[str, Field(pattern=STATUS)] | None = Field(
        default=None, description="HTTP status, e.g. 503, or class of statuses, e.g. 4xx"
    )
    error: Text | None = Field(default=None, description="name of the error, as in the request log")
    session: Text | None = Field(default=None, description="session, as workers receive it in the header x-session-id")
    min_duration_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=0.0, description="minimum duration of the request in seconds"
    )
    since: AwareDatetime | None = Field(
        default=None, description="earliest start of the request, RFC 3339, e.g. 2026-11-21T08:00:00Z"
    )
    limit: Annotated[int, Field(ge=1, le=paging.MOST)] = Field(
        default=paging.USUAL, description="maximum number of entries to return"
    )
    after: Annotated[str, Field(pattern=CURSOR)] | None = Field(
        default=None, description="value of `next` on the previous page; omit it for the first page"
    )

    def filter(self) -> ReceiptFilter:
        lowest, highest = _statuses(self.status)
        return ReceiptFilter(
            team=self.team,
            model=self.model,
            worker=self.worker,
            session=self.session,
            error=self.error,
            min_status=lowest,
            max_status=highest,
            min_duration_s=self.min_duration_s,
            since=0.0 if self.since is None else self.since.timestamp(),
        )


class CandidateResponse(BaseModel):
    """Worker that could have answered the request, with the predictions from which the decision was made."""

    worker: str
    rank: int = Field(description="position in the order in which the workers were to be tried, from 1")
    hit_blocks: int
    hit_tokens: float = Field(description="prompt tokens that the worker was predicted to have in its cache")
    hit_source: Literal["reported", "predicted"]
    wait_s: float = Field(description="predicted seconds until the worker could begin with the request")
    prefill_s: float = Field(description="predicted seconds to compute the part of the prompt that is not cached")
    load_s: float = Field(description="predicted seconds to load cached blocks that are not in GPU memory")
    evicts_s: float = Field(description="expected seconds to recompute the cached blocks that the request evicts")
    displaces_s: float = Field(description="expected seconds to recompute what other sessions lose from the cache")
    predicted_ttft_s: float = Field(description="predicted seconds from the decision to the first token")
    cost_s: float = Field(description="cost of the request on this worker, by which prefix_aware and kv_aware rank")
    pulled_tokens: float = Field(description="tokens among hit_tokens that the worker was to pull from another worker")
    pending: int = Field(description="requests of the worker without a first token")
    decodes: int = Field(description="requests of the worker that generated tokens")
    why_not: str | None = Field(description="reason why the worker was not chosen; null for the chosen worker")


class ExcludedResponse(BaseModel):
    worker: str
    why_not: str = Field(description="reason why the worker was not a candidate")


class AttemptResponse(BaseModel):
    backend: str
    outcome: str = Field(description="answered, or the name of the error")


class PhaseResponse(BaseModel):
    name: str
    began_s: float = Field(description="seconds from the start of the request to the start of the phase")
    duration_s: float | None


class RequestResponse(BaseModel):
    object: Literal["request"]
    number: int = Field(description="number of the request on this gateway since startup")
    id: str = Field(description="request id, as in the header x-request-id and in the request log")
    time: str = Field(description="start of the request, RFC 3339 in UTC")
    team: str | None
    key: str | None
    model: str | None
    session: str | None = Field(description="session, as workers receive it in the header x-session-id")
    stream: bool
    status: int
    error: str | None
    refused_by: str | None = Field(description="limit that the request would have exceeded")
    guardrails: list[str]
    strategy: str | None
    reason: str | None = Field(description="reason for the choice: hit, spread, cold or none")
    chosen: str | None = Field(description="worker that the decision chose; null without a decision")
    candidate_count: int = Field(description="number of candidates; a receipt lists at most 8 of them")
    prefill_price: float | None = Field(description="factor on each second of prefill in the costs")
    attempt_count: int
    continued: int = Field(description="number of times that another worker continued the stream")
    backend: str | None = Field(description="worker or fallback that answered or was tried last")
    served_by: str
    fell_back: bool
    prefill: str | None
    prefill_worker: str | None
    prompt_tokens: float = Field(description="prompt tokens that routing assumed, exact or estimated")
    reported_prompt_tokens: int | None
    predicted_hit_tokens: float
    hit_source: Literal["reported", "predicted"]
    cached_tokens: int | None = Field(description="cached prompt tokens that the engine reported")
    completion_tokens: int | None
    prompt_blocks: int
    queued_s: float
    predicted_ttft_s: float | None
    ttft_s: float | None
    duration_s: float
    regret_s: float | None = Field(
        description="seconds by which the chosen worker cost more than the cheapest other candidate, with the cache "
        "hit that its engine reported in place of the predicted hit"
    )
    cost_usd: float
    saved_usd: float
    trace_id: str | None


class RequestDetailResponse(RequestResponse):
    candidates: list[CandidateResponse]
    excluded: list[ExcludedResponse]
    attempts: list[AttemptResponse]
    phases: list[PhaseResponse] = Field(description="phases of the trace, or four phases if there is no trace")


@router.get(
    "",
    summary="List the latest requests of this gateway, latest first",
    description="A gateway knows only the requests that it has completed itself, at most `admin.receipts` of them.",
    response_model=Listed[RequestResponse],
)
async def list_requests(who: Who, gateway: GatewayOfApp, asked: Annotated[RequestsQuery, Query()]) -> Response:
    asked = asked.model_copy(update={"team": who.team_within(asked.team)})
    before = None if asked.after is None else int(asked.after)
    page = _receipts(gateway).page(asked.filter(), limit=asked.limit, before=before)
    shown = [request_response(each) for each in page.receipts]
    return JSONResponse(listing(shown, None if page.next is None else str(page.next)))


@router.get("/{request_id:path}", include_in_schema=False)  # callers choose ids, and an id can contain slashes
@router.get(
    "/{request_id}",
    summary="Return one request: the candidates, why this worker was chosen, and what came of it",
    description="If several requests had the same id, the latest one is returned.",
    response_model=RequestDetailResponse,
)
async def read_request(who: Who, gateway: GatewayOfApp, request_id: str) -> Response:
    receipt = _receipts(gateway).get(request_id)
    if receipt is None or not who.sees(receipt.team):
        text = f"This gateway keeps no receipt of a request {request_id[:128]!r}: it is too old, or had another gateway"
        raise UnknownEntity(text, param="request_id")
    return JSONResponse(request_response(receipt))


def request_response(receipt: ReceiptSummary) -> dict[str, Any]:
    """Return the response for *receipt*, which may have details."""
    return {"object": "request", **msgspec.to_builtins(receipt), "time": to_the_millisecond(receipt.time)}


def _receipts(gateway: AdminGateway) -> Receipts:
    if gateway.receipts is None:
        raise UnknownEntity("This gateway keeps no receipts of requests, because admin.receipts is 0")
    return gateway.receipts


def _statuses(status: str | None) -> tuple[int, int]:
    """Return the lowest and the highest status that *status* stands for."""
    if status is None:
        return 0, 999
    if status.endswith("xx"):
        lowest = int(status[0]) * 100
        return lowest, lowest + 99
    return int(status), int(status)
