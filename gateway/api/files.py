"""Routes ``/v1/files``: files that teams upload for batches, and files that batches write."""

import re
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect

from gateway.api.callers import AnyCaller
from gateway.api.openai_lists import answer, order_of, page_object, page_size
from gateway.batch.files import Files, TeamFile, check_upload_type
from gateway.protocol.errors import InvalidField, UnknownRoute
from gateway.tenancy.teams.caller import Caller

router = APIRouter(tags=["files"])

_CLOSED_BY_CALLER = 499
_MAX_LIMIT = 10_000
_PURPOSES = ("batch", "batch_output")
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})", re.IGNORECASE)
_UPLOAD = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file", "purpose"],
                    "properties": {
                        "file": {"type": "string", "format": "binary", "description": "lines of JSON"},
                        "purpose": {"const": "batch"},
                        "expires_after[anchor]": {"const": "created_at"},
                        "expires_after[seconds]": {"type": "integer", "minimum": 3600, "maximum": 2_592_000},
                    },
                }
            }
        },
    }
}


def _files(request: Request, _caller: AnyCaller) -> Files:
    """Return the files of the gateway. The caller is authenticated first."""
    files: Files | None = request.app.state.files
    if files is None:
        raise UnknownRoute(
            f"{request.url.path[:200]} is not served here, because neither files.folder nor files.s3 is set"
        )
    return files


Served = Annotated[Files, Depends(_files)]


@router.post("/v1/files", summary="Upload a file for a batch", openapi_extra=_UPLOAD)
async def upload(request: Request, files: Served, caller: AnyCaller) -> Response:
    """Return the new file. The form has the fields `file`, `purpose` (`batch`) and, optionally, `expires_after`."""
    headers = dict(request.headers.raw)
    content_type = headers.get(b"content-type", b"")
    check_upload_type(content_type, headers.get(b"content-encoding"))
    try:
        file = await files.upload(team_of(caller), content_type, _received(request))
    except ClientDisconnect:
        return Response(status_code=_CLOSED_BY_CALLER)
    return answer(file_object(file))


@router.get("/v1/files", summary="List the files of the team")
async def list_files(  # noqa: PLR0917  # query parameters
    files: Served,
    caller: AnyCaller,
    after: str | None = None,
    limit: str | None = None,
    order: str | None = None,
    purpose: str | None = None,
) -> Response:
    """Return files of the team, the newest first unless `order` is `asc`. `after` is the id of the last file of the
    previous page, `limit` is at most 10,000, and `purpose` is `batch` or `batch_output`.
    """
    if purpose is not None and purpose not in _PURPOSES:
        raise InvalidField("'purpose' must be 'batch' or 'batch_output'", param="purpose")
    found, has_more = await files.page(
        team_of(caller),
        after=after,
        limit=page_size(limit, default=_MAX_LIMIT, most=_MAX_LIMIT),
        newest_first=order_of(order) == "desc",
        purpose=purpose,
    )
    return answer(page_object([file_object(file) for file in found], has_more=has_more))


@router.get("/v1/files/{file_id}", summary="Return the properties of a file")
async def retrieve(file_id: str, files: Served, caller: AnyCaller) -> Response:
    return answer(file_object(await files.find(team_of(caller), file_id)))


@router.get("/v1/files/{file_id}/content", summary="Return the content of a file")
async def content(request: Request, file_id: str, files: Served, caller: AnyCaller) -> Response:
    """Return the content, or the range of bytes that the header `range` names."""
    file = await files.find(team_of(caller), file_id)
    size, tag = file.info.bytes, f'"{file.id}"'  # the content of a file never changes
    headers = {"accept-ranges": "bytes", "etag": tag}
    wanted = request.headers.get("range") if request.headers.get("if-range", tag) == tag else None
    found = byte_range(wanted, size)
    if found is None:
        return Response(status_code=416, headers={**headers, "content-range": f"bytes */{size}"})
    headers["content-length"] = str(len(found))
    is_part = len(found) < size
    if is_part:
        headers["content-range"] = f"bytes {found.start}-{found.stop - 1}/{size}"
    pieces = await files.content(file, found.start, found.stop)
    return StreamingResponse(
        pieces, status_code=206 if is_part else 200, headers=headers, media_type="application/octet-stream"
    )


@router.delete("/v1/files/{file_id}", summary="Delete a file with its content")
async def delete(file_id: str, files: Served, caller: AnyCaller) -> Response:
    await files.remove(team_of(caller), file_id)
    return answer({"id": file_id, "object": "file", "deleted": True})


def byte_range(header: str | None, size: int) -> range | None:
    """Return the bytes of a content of *size* bytes that the header ``range`` names, or None if it has none of them.

    Without a header, or with one that names several ranges or is malformed, these are all bytes, as RFC 9110 allows.
    """
    found = _RANGE.fullmatch(header or "")
    if found is None or found.groups() == ("", ""):
        return range(size)
    first, last = found.groups()
    if not first:
        start, stop = max(0, size - int(last)), size
    else:
        start, stop = int(first), min(size, int(last) + 1 if last else size)
        if last and int(last) < start:
            return range(size)
    return range(start, stop) if start < stop else None


def team_of(caller: Caller | None) -> str:
    """Return the team that owns what *caller* creates. Without teams, all callers own everything together."""
    return "" if caller is None else caller.team_name


def file_object(file: TeamFile) -> dict[str, Any]:
    """Return a file in OpenAI's format."""
    info = file.info
    return {
        "id": file.id,
        "object": "file",
        "bytes": info.bytes,
        "created_at": info.created_at,
        "expires_at": info.expires_at,
        "filename": info.filename,
        "purpose": info.purpose,
        "status": "processed",
        "status_details": None,
    }


async def _received(request: Request) -> AsyncIterator[bytes]:
    async for data in request.stream():
        yield data
