"""`/admin/v1/what-if` and `/admin/v1/savings`: replay recorded requests with other settings, and estimate savings."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from gateway.api.admin_access import Who, needs
from gateway.api.admin_v1.bodies import RequestBody, Seconds
from gateway.api.admin_v1.json_body import body, takes
from gateway.api.admin_v1.paging import Listed, listing
from gateway.api.admin_v1.parts import AdminGateway, ConfiguredModel, GatewayOfApp
from gateway.protocol.errors import Conflict, InvalidField, UnknownEntity
from gateway.protocol.field_types import StrategyName
from gateway.telemetry.what_if.job import Change, FleetShape, Result, Saved
from gateway.telemetry.what_if.replays import ROUND_ROBIN
from gateway.telemetry.what_if.runner import BusyError, Replay, Status
from gateway.telemetry.what_if.what_if import NothingRecordedError, Prices, WhatIf
from gateway.tenancy.ledger.price import MILLION
from replay.trace import parse_trace

router = APIRouter(prefix="/admin/v1", tags=["gateway"], dependencies=[Depends(needs("viewer"))])
OPERATOR = [Depends(needs("operator"))]
"""A replay takes processor time of the machine, so viewers only see the results."""

MAX_BODY_BYTES = 8 * 2**20
MAX_ALTERNATIVES = 12
MAX_WORKERS = 512
MAX_CACHE_TOKENS = 10**9
HOUR_S = 3600.0


class AlternativeBody(RequestBody):
    strategy: StrategyName | None = Field(default=None, description="strategy; null means the recorded one")
    workers: Annotated[int, Field(ge=1, le=MAX_WORKERS)] | None = Field(
        default=None, description="number of workers; null means as many as were recorded"
    )
    cache_tokens: Annotated[int, Field(ge=1, le=MAX_CACHE_TOKENS)] | None = Field(
        default=None, description="KV cache of each worker in tokens; null means the size that workers report"
    )
    cache_factor: Annotated[float, Field(gt=0, le=1000)] | None = Field(
        default=None, description="factor of the size of KV caches, e.g. 2 for caches of twice the size"
    )

    def change(self) -> Change:
        return Change(self.strategy, self.workers, self.cache_tokens, self.cache_factor)


class WhatIfBody(RequestBody):
    model: str | None = Field(
        default=None, max_length=300, description="configured name of the model; null means the only model"
    )
    last_s: Seconds = Field(default=HOUR_S, description="seconds of the past whose requests are replayed")
    alternatives: Annotated[tuple[AlternativeBody, ...], Field(max_length=MAX_ALTERNATIVES, strict=False)] = Field(
        default=(), description="fleets and strategies to compare with what was recorded"
    )
    trace: str | None = Field(
        default=None,
        description="trace to replay in place of recorded requests, one JSON object per line, as the page about "
        "what-if replays describes",
    )
    users: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=1, description="number of concurrent sessions in an uploaded trace of sessions"
    )
    kv_events: bool | None = Field(
        default=None,
        description="whether engines send KV events, which the strategy kv_aware reads; null means whether all workers "
        "of the model send them now",
    )


@dataclass(frozen=True, slots=True)
class Recording:
    """State of the recording of request shapes."""

    enabled: bool
    keep_s: float | None
    """Seconds for which shapes are kept, or null if they are not recorded."""


@dataclass(frozen=True, slots=True)
class WhatIfResponse:
    object: Literal["what_if"]
    id: str | None
    """Id of the replay, or null if none was started since the gateway started."""
    status: Status
    model: str | None
    source: Literal["recorded", "trace"] | None
    started_at: float | None
    """Unix time at which the replay started."""
    done: float
    """Share of the work that is done, from 0 to 1."""
    kv_events: bool | None
    """Whether the replay assumes that engines send KV events."""
    alternatives: list[FleetShape]
    """Alternatives of the job, in the order of the result."""
    result: Result | None
    error: str | None
    recording: Recording


@dataclass(frozen=True, slots=True)
class ReplaySummary:
    object: Literal["replay"]
    id: str
    status: Status
    model: str
    source: Literal["recorded", "trace"]
    started_at: float
    """Unix time at which the replay started."""
    alternatives: list[FleetShape]


@dataclass(frozen=True, slots=True)
class SavingsResponse:
    object: Literal["savings"]
    is_estimate: Literal[True]
    compared_with: str
    model: str | None
    begins_at: float | None
    """Unix time of the first request, or null if no replay of recorded requests has completed."""
    duration_s: float
    requests: int
    """Number of replayed requests of these teams."""
    teams: list[Saved]


def _what_if(gateway: GatewayOfApp) -> WhatIf:
    assert gateway.what_if is not None, "the routes exist only with what-if replays"
    return gateway.what_if


WhatIfOfApp = Annotated[WhatIf, Depends(_what_if)]


@router.post(
    "/what-if",
    summary="Replay recorded requests, or an uploaded trace, with other settings",
    description="One replay runs at a time, in a process of its own at low priority. Every replay of recorded requests "
    "also estimates the savings of `/admin/v1/savings`.",
    status_code=202,
    response_model=WhatIfResponse,
    dependencies=OPERATOR,
    openapi_extra=takes(WhatIfBody),
)
async def start(
    gateway: GatewayOfApp,
    what_if: WhatIfOfApp,
    wanted: Annotated[WhatIfBody, Depends(body(WhatIfBody, max_bytes=MAX_BODY_BYTES))],
) -> Response:
    configured = _configured(gateway, wanted.model)
    model = gateway.models.get(configured.name)
    if model is None:
        raise InvalidField("'model' names a model that is not served.", param="model")
    changes, prices = [each.change() for each in wanted.alternatives], _prices(configured)
    if what_if.runner.status == "running":  # before a long trace is checked
        raise _busy()
    try:
        if wanted.trace is None:
            replay = what_if.replay(model, prices, changes, last_s=wanted.last_s, has_kv_events=wanted.kv_events)
        else:
            await asyncio.to_thread(_check, wanted)
            replay = what_if.replay_trace(
                model, prices, changes, wanted.trace, users=wanted.users, has_kv_events=wanted.kv_events
            )
    except NothingRecordedError as fault:
        raise Conflict(str(fault)) from None
    except BusyError:
        raise _busy() from None
    return _state(what_if, replay, 202)


@router.get("/what-if", summary="Show the progress and the result of the last replay", response_model=WhatIfResponse)
async def show(what_if: WhatIfOfApp) -> Response:
    return _state(what_if, what_if.runner.latest)


@router.delete("/what-if", summary="Cancel the running replay", response_model=WhatIfResponse, dependencies=OPERATOR)
async def cancel(what_if: WhatIfOfApp) -> Response:
    what_if.runner.cancel()
    return _state(what_if, what_if.runner.latest)


@router.get(
    "/what-if/replays",
    summary="List the latest replays",
    description="A gateway keeps at most 20 replays, with 8 MiB of results, until it restarts. The latest is first.",
    response_model=Listed[ReplaySummary],
)
async def replays(what_if: WhatIfOfApp) -> Response:
    data = [
        ReplaySummary("replay", each.id, each.status, each.job.model, _source(each), each.started_at, _shapes(each))
        for each in what_if.runner
    ]
    return JSONResponse(listing(msgspec.to_builtins(data), None))


@router.get(
    "/what-if/replays/{replay_id}",
    summary="Show the progress and the result of one replay",
    response_model=WhatIfResponse,
)
async def show_one(what_if: WhatIfOfApp, replay_id: str) -> Response:
    replay = what_if.runner.find(replay_id)
    if replay is None:
        raise UnknownEntity("This gateway keeps no replay with this id.")
    return _state(what_if, replay)


@router.get(
    "/savings",
    summary="Estimate what the caches saved for each team, compared with round robin",
    description="The estimate is from the last replay of recorded requests (POST `/admin/v1/what-if`). An admin key "
    "that is limited to a team gets the estimate for this team.",
    response_model=SavingsResponse,
)
async def savings(who: Who, what_if: WhatIfOfApp) -> Response:
    last = what_if.runner.of_shapes
    if last is None:
        return _json(SavingsResponse("savings", True, ROUND_ROBIN, None, None, 0.0, 0, []))
    job, result = last
    teams = [each for each in result.savings if who.sees(each.team)]
    requests = sum(each.requests for each in teams)
    begins_at, duration_s = result.begins_at, result.duration_s
    return _json(SavingsResponse("savings", True, ROUND_ROBIN, job.model, begins_at, duration_s, requests, teams))


def _state(what_if: WhatIf, replay: Replay | None, status: int = 200) -> Response:
    recording = Recording(what_if.files is not None, None if what_if.files is None else what_if.files.keep_s)
    if replay is None:
        return _json(
            WhatIfResponse("what_if", None, "idle", None, None, None, 0.0, None, [], None, None, recording), status
        )
    found = WhatIfResponse(
        "what_if",
        replay.id,
        replay.status,
        replay.job.model,
        _source(replay),
        replay.started_at,
        replay.done,
        replay.job.has_kv_events,
        _shapes(replay),
        replay.result,
        replay.error,
        recording,
    )
    return _json(found, status)


def _busy() -> Conflict:
    return Conflict("A replay is running. Wait for its end, or cancel it.")


def _source(replay: Replay) -> Literal["recorded", "trace"]:
    return "recorded" if replay.job.trace is None else "trace"


def _shapes(replay: Replay) -> list[FleetShape]:
    """Return the alternatives of *replay* as fleets. The recorded fleet may differ from the current one."""
    result = replay.result
    if result is not None:
        return [row.fleet for row in result.alternatives]
    return [change.applied(replay.job.fleet) for change in replay.job.changes]


def _json(found: WhatIfResponse | SavingsResponse, status: int = 200) -> Response:
    content: Any = msgspec.to_builtins(found)
    return JSONResponse(content, status)


def _configured(gateway: AdminGateway, name: str | None) -> ConfiguredModel:
    models = list(gateway.configured())
    if name is None:
        if len(models) == 1:
            return models[0]
        raise InvalidField("'model' is required, because several models are configured.", param="model")
    for model in models:
        if model.name == name:
            return model
    raise InvalidField("'model' names a model that is not configured; give its name, not an alias.", param="model")


def _prices(model: ConfiguredModel) -> Prices:
    difference = (model.input_usd - model.cached_input_usd) / MILLION
    return Prices(model.gpu_hour_usd, difference if model.input_usd else None)


def _check(wanted: WhatIfBody) -> None:
    """Raise ``InvalidField`` unless the uploaded trace is valid and there is something to replay it with."""
    if not wanted.alternatives:
        raise InvalidField("'alternatives' is required with a trace.", param="alternatives")
    try:
        parse_trace((wanted.trace or "").splitlines(), "The trace")
    except ValueError as fault:
        raise InvalidField(f"'trace' is not valid: {fault}.", param="trace") from None
