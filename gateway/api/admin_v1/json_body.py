"""Bodies of requests: read within bounds, only as JSON, and not before it is known who sends them."""

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
"""Longest body; the largest ones list models."""
MAX_VALUES = 5_000
"""Most values of a body. Pydantic makes an object for each wrong value, a few microseconds each."""


def body(kind: type[BodyT]) -> Callable[[Request], Awaitable[BodyT]]:
    """A dependency: the request's body as a *kind*. To be declared behind the one that says who asks.

    Raises:
        InvalidField, MalformedBody, UnsupportedMedia, BodyTooLarge: it is not as it should be.
        CallerGone: it ended before the body did.
    """

    async def read(request: Request) -> BodyT:
        return parsed(kind, await raw_body(request))

    return read


async def raw_body(request: Request) -> bytes:
    """The request's body, whose type must be said to be JSON: a web page cannot send that unasked.

    An empty one, of which nothing is said, is the empty object.
    """
    incoming = Incoming(request.scope, request.receive)
    raw = await receive_body(incoming, JSON, max_bytes=MOST_BYTES, method=request.method, setting=None)
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
    """A dependency: the request's body, a JSON merge patch of a *kind*. Its values are looked at when it is merged.

    Raises:
        As `body`.
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
    """*state* as *patch* changes it, as a *kind*.

    Raises:
        InvalidField: it would be none.
    """
    try:
        raw = msgspec.json.encode(merged(state, patch))
    except RecursionError:
        raise InvalidField("The body is nested too deeply.") from None
    return parsed(kind, raw)


def parsed(kind: type[BodyT], raw: bytes) -> BodyT:
    """*raw* as a *kind*.

    Raises:
        InvalidField, MalformedBody: it cannot be read as one.
    """
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=True, include_input=False)
        raise fault_of(faults, _names(kind)) from None


def takes(kind: type[RequestBody], *, required: bool = True, media: str = "application/json") -> Json:
    """Return the description of a route's body, for `openapi_extra`."""
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"requestBody": {"required": required, "content": {media: {"schema": schema}}}}


def _names(kind: type[BaseModel]) -> Iterator[str]:
    """Yield the names of the fields of *kind*, and of the limits in it."""
    for name, field in kind.model_fields.items():
        yield name
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _names(field.annotation)
