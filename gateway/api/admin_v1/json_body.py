"""Read JSON request bodies within size limits, after the caller has been authenticated."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import msgspec
from fastapi import Request
from pydantic import BaseModel, ValidationError

from gateway.api.admin_v1.bodies import RequestBody
from gateway.api.admin_v1.faults import fault_of
from gateway.api.admin_v1.merge_patch import merged
from gateway.protocol.errors import InvalidField, MalformedBody, UnsupportedMedia
from gateway.protocol.json_bounds import INLINE_BYTES, check_bounds
from gateway.proxy.bodies.receive import receive_body
from gateway.proxy.incoming import JSON, Incoming

BodyT = TypeVar("BodyT", bound=RequestBody)
Json = dict[str, Any]

MOST_BYTES = 256 * 1024
"""Maximum body size in bytes. The longest request bodies contain lists of models."""
MAX_VALUES = 5_000
"""Maximum number of values in a request body. Pydantic takes a few microseconds for each invalid value."""


def body(kind: type[BodyT], *, max_bytes: int = MOST_BYTES) -> Callable[[Request], Awaitable[BodyT]]:
    """Return a dependency that parses the request body as a *kind*. List it after the authenticating dependency.

    The body has at most *max_bytes* bytes.

    Raises:
        InvalidField, MalformedBody, UnsupportedMedia, BodyTooLarge: if the body is invalid.
        CallerGone: if the client disconnected before it had sent the whole body.
    """

    async def read(request: Request) -> BodyT:
        return parsed(kind, await _received(request, max_bytes))

    return read


async def raw_body(request: Request) -> bytes:
    """Return the bytes of the request body, which requires a JSON content type.

    Web pages cannot send that type without a CORS preflight.

    An empty body without a content type counts as an empty object.
    """
    return await _received(request, MOST_BYTES)


async def _received(request: Request, max_bytes: int) -> bytes:
    incoming = Incoming(request.scope, request.receive)
    raw = await receive_body(incoming, JSON, max_bytes=max_bytes, method=request.method, setting=None)
    if len(raw) > INLINE_BYTES:
        await asyncio.get_running_loop().run_in_executor(
            None, partial(check_bounds, raw, max_values=MAX_VALUES, setting=None)
        )
    if "content-type" in request.headers:
        return raw
    if raw:
        raise UnsupportedMedia("The content-type must be application/json.")
    return b"{}"


def patch_body(kind: type[RequestBody]) -> Callable[[Request], Awaitable[Json]]:
    """Return a dependency that reads a JSON merge patch for a *kind*. Values are validated only after merging.

    Raises:
        InvalidField, MalformedBody, UnsupportedMedia, BodyTooLarge: under the conditions of `body`.
    """

    async def read(request: Request) -> Json:
        try:
            patch = msgspec.json.decode(await raw_body(request), type=Json)
        except msgspec.ValidationError:
            raise InvalidField("The body must be an object.") from None
        except (msgspec.DecodeError, RecursionError):
            raise MalformedBody("The body is not JSON") from None
        unknown = [{"type": "extra_forbidden", "loc": (name,)} for name in patch if name not in kind.model_fields]
        if unknown:
            raise fault_of(unknown, _names(kind))
        return patch

    return read


def patched(kind: type[BodyT], state: Json, patch: Json) -> BodyT:
    """Apply the merge patch *patch* to *state* and return the result as a *kind*.

    Raises:
        InvalidField: if the result is not valid.
    """
    try:
        raw = msgspec.json.encode(merged(state, patch))
    except RecursionError:
        raise InvalidField("The body is nested too deeply.") from None
    return parsed(kind, raw)


def parsed(kind: type[BodyT], raw: bytes) -> BodyT:
    """Parse the JSON text *raw* as a *kind*.

    Raises:
        InvalidField, MalformedBody: if the text cannot be parsed.
    """
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=True, include_input=False)
        raise fault_of(faults, _names(kind)) from None


def takes(kind: type[RequestBody], *, required: bool = True, media: str = "application/json") -> Json:
    """Return the OpenAPI description of a route's request body, for `openapi_extra`."""
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"requestBody": {"required": required, "content": {media: {"schema": schema}}}}


def _names(kind: type[BaseModel]) -> Iterator[str]:
    """Yield the field names of the model *kind* and of its limits."""
    for name, field in kind.model_fields.items():
        yield name
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _names(field.annotation)
