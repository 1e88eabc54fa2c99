"""Routes ``/v1/batches``: batches of requests that run when workers have time."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from gateway.api.callers import AnyCaller
from gateway.api.files import team_of
from gateway.api.openai_lists import answer, page_object, page_size
from gateway.batch.batch import BatchUsage, TeamBatch
from gateway.batch.batches import Batches
from gateway.batch.line_store import Progress
from gateway.protocol.errors import DECODE_ERRORS, BodyTooLarge, Forbidden, MalformedBody, UnknownRoute

router = APIRouter(tags=["batches"])

_MAX_BODY_BYTES = 64 * 1024
_DEFAULT_LIMIT = 20
_MAX_LIMIT = 100
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["input_file_id", "endpoint", "completion_window"],
                    "properties": {
                        "input_file_id": {"type": "string"},
                        "endpoint": {"type": "string"},
                        "completion_window": {"const": "24h"},
                        "metadata": {"type": "object"},
                        "output_expires_after": {"type": "object"},
                    },
                }
            }
        },
    }
}


def _batches(request: Request, _caller: AnyCaller) -> Batches:
    """Return the batches of the gateway. The caller is authenticated first."""
    batches: Batches | None = request.app.state.batches
    if batches is None:
        raise UnknownRoute(
            f"{request.url.path[:200]} is not served here, because neither files.folder nor files.s3 is set"
        )
    return batches


Served = Annotated[Batches, Depends(_batches)]


@router.post("/v1/batches", summary="Create a batch from an uploaded file", openapi_extra=_BODY)
async def create(request: Request, batches: Served, caller: AnyCaller) -> Response:
    """Return the new batch. Its lines run for the API key of the caller, within the limits of the key and its team.

    Callers with a token of an identity provider get status 403, because lines can run after the token has expired.
    """
    if caller is not None and not caller.key.digest:
        text = "A batch needs an API key, because its lines can run after a token has expired"
        raise Forbidden(text, code="batch_needs_key")
    fields = await _fields(request)
    batch = await batches.create(team_of(caller), "" if caller is None else caller.key_id, fields)
    return answer(batch_object(batch, Progress(0, 0, 0)))


@router.get("/v1/batches", summary="List the batches of the team")
async def list_batches(
    batches: Served, caller: AnyCaller, after: str | None = None, limit: str | None = None
) -> Response:
    """Return batches of the team, the newest first. `after` is the id of the last batch of the previous page, and
    `limit` is at most 100.
    """
    size = page_size(limit, default=_DEFAULT_LIMIT, most=_MAX_LIMIT)
    found, has_more = await batches.page(team_of(caller), after=after, limit=size)
    return answer(page_object([batch_object(*each) for each in found], has_more=has_more))


@router.get("/v1/batches/{batch_id}", summary="Return a batch")
async def retrieve(batch_id: str, batches: Served, caller: AnyCaller) -> Response:
    return answer(batch_object(*await batches.find(team_of(caller), batch_id)))


@router.post("/v1/batches/{batch_id}/cancel", summary="Cancel a batch")
async def cancel(batch_id: str, batches: Served, caller: AnyCaller) -> Response:
    """Return the batch. Lines in flight may still finish. The output file gets the lines that were answered."""
    return answer(batch_object(*await batches.cancel(team_of(caller), batch_id)))


def batch_object(batch: TeamBatch, progress: Progress) -> dict[str, Any]:
    """Return a batch in OpenAI's format."""
    info = batch.info
    faults = [msgspec.to_builtins(fault) for fault in info.errors]
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": info.endpoint,
        "errors": {"object": "list", "data": faults} if faults else None,
        "input_file_id": info.input_file_id,
        "completion_window": "24h",
        "status": info.status,
        "output_file_id": info.output_file_id,
        "error_file_id": info.error_file_id,
        "created_at": info.created_at,
        "in_progress_at": info.in_progress_at,
        "expires_at": info.expires_at,
        "finalizing_at": info.finalizing_at,
        "completed_at": info.completed_at,
        "failed_at": info.failed_at,
        "expired_at": info.expired_at,
        "cancelling_at": info.cancelling_at,
        "cancelled_at": info.cancelled_at,
        "request_counts": {"total": progress.total, "completed": progress.completed, "failed": progress.failed},
        "usage": None if info.usage is None else _usage_object(info.usage),
        "metadata": info.metadata,
    }


def _usage_object(usage: BatchUsage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


async def _fields(request: Request) -> dict[str, Any]:
    """Return the fields of the JSON object in the body of a request.

    Raises:
        BodyTooLarge: if the body exceeds its limit.
        MalformedBody: if the body is not a JSON object.
    """
    raw = bytearray()
    async for data in request.stream():
        raw += data
        if len(raw) > _MAX_BODY_BYTES:
            raise BodyTooLarge(f"The body has more than {_MAX_BODY_BYTES} bytes, which is the limit")
    try:
        fields = msgspec.json.decode(raw)
    except DECODE_ERRORS as fault:
        raise MalformedBody(f"The body is not valid JSON: {fault}") from None
    if not isinstance(fields, dict):
        raise MalformedBody("The body must be a JSON object")
    return fields
