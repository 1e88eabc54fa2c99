"""Error responses in the format of each imitated engine. The format can also depend on the endpoint.

vLLM          {"error": {"message", "type", "param", "code"}}, where code is the HTTP status
SGLang        {"object": "error", "message", "type", "param", "code"}, under "error" in streams and on /v1/responses
Dynamo        {"message", "type", "code"}, where type is the reason phrase of the status
/v1/messages  {"type": "error", "error": {"type", "message"}} for all engines, except in render routes
"""

from collections.abc import Callable
from http.client import responses
from typing import Any, Literal, TypeAlias

Dialect = Literal["vllm", "sglang", "dynamo"]
ErrorShape: TypeAlias = Callable[["ApiError"], dict[str, Any]]

_TYPES = {404: "NotFoundError", 429: "RateLimitError", 500: "InternalServerError", 503: "ServiceUnavailableError"}


class ApiError(Exception):
    """Error response with a status other than 200. *kind* is the error type if the status does not determine it."""

    def __init__(self, status: int, message: str, *, param: str | None = None, kind: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.kind = kind or _TYPES.get(status, "BadRequestError" if status < 500 else "InternalServerError")


class EngineDead(ApiError):
    """Error: the engine behind the server has died, while the HTTP server is still running."""

    def __init__(self) -> None:
        super().__init__(500, "EngineCore encountered an issue. See stack trace (above) for the root cause.")


def error_shape(dialect: Dialect, path: str) -> ErrorShape:
    """Return the error format for responses that consist only of the error."""
    if path.startswith("/v1/messages") and not path.endswith("/render"):
        return _anthropic
    if dialect == "vllm" or (dialect == "sglang" and path.startswith("/v1/responses")):
        return _nested
    return _sglang if dialect == "sglang" else _dynamo


def event_error_shape(dialect: Dialect, path: str) -> ErrorShape:
    """Return the error format for a stream, in which the key ``error`` distinguishes an error from a regular chunk."""
    shape = error_shape(dialect, path)
    return shape if shape in (_anthropic, _nested) else lambda error: {"error": shape(error)}


def _nested(error: ApiError) -> dict[str, Any]:
    return {"error": {"message": error.message, "type": error.kind, "param": error.param, "code": error.status}}


def _sglang(error: ApiError) -> dict[str, Any]:
    return {
        "object": "error",
        "message": error.message,
        "type": error.kind,
        "param": error.param,
        "code": error.status,
    }


def _dynamo(error: ApiError) -> dict[str, Any]:
    return {"message": error.message, "type": responses.get(error.status, "Error"), "code": error.status}


def _anthropic(error: ApiError) -> dict[str, Any]:
    return {"type": "error", "error": {"type": error.kind, "message": error.message}}
