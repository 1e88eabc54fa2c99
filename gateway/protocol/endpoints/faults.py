"""Errors in the shape of the caller's API.

A fault is either an error of the gateway (`fault_of`), or an error of a worker in one of the shapes of engines
(`fault_in`). It is sent in the shape of the endpoint (`ErrorShape`).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import msgspec

from gateway.protocol.context_overflow import MAX_READ_BYTES, is_overflow
from gateway.protocol.errors import DECODE_ERRORS, GatewayError, PromptTooLong

_MAX_MESSAGE_LENGTH = 4096
"""Longest message that is converted, in characters; validation errors may quote the whole prompt."""
_MAX_READ_BYTES = 2**20
_MAX_TEXT_LENGTH = 500
_MAX_DETAILS = 5

_OVERFLOW_STATUSES = (400, 422)
"""Statuses of overflows; 413 is for large bodies, 429 for token limits."""

_is_status = re.compile(r"[0-9]{3}").fullmatch


@dataclass(frozen=True, slots=True)
class Fault:
    """One error of the gateway or of a worker. *type*, *param* and *code* are None if unknown."""

    status: int
    message: str
    type: str | None = None
    param: str | None = None
    code: str | int | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class ErrorShape:
    """Shape of the errors of one API."""

    body: Callable[[Fault], bytes]
    """Body of a response with an error status, in UTF-8 JSON."""
    event: Callable[[Fault, int], bytes]
    """Last event of a stream. The number is that of the event, for APIs that count events."""
    fitted: Callable[[int, Any], Any]
    """Returns a worker's JSON, for a status, if it has this shape: the same object, which can pass unchanged, or a copy
    with a corrected field; otherwise None."""


def fault_of(error: GatewayError, *, request_id: str | None = None) -> Fault:
    """Return the fault for an *error* of the gateway."""
    return Fault(error.status, error.message, error.type, error.param, error.code, request_id)


def normalized(shape: ErrorShape, status: int, body: bytes) -> bytes:
    """Return a worker's error *body* in *shape*: unchanged if it has that shape, otherwise converted. O(bytes)."""
    said = _json_in(body)
    fitted = shape.fitted(status, said)
    if fitted is None:
        return shape.body(fault_in(status, body))
    return body if fitted is said else msgspec.json.encode(fitted)


def fault_in(status: int, body: bytes) -> Fault:
    """Read an upstream's error *body*.

    Known shapes are vLLM's (``error`` with an object; for 401 with a string), SGLang's and Dynamo's (flat),
    Anthropic's, FastAPI's (``detail``) and plain text. For HTML or an empty body, the message is made from the status.
    """
    message, fields = _message_in(body)
    kind, param, code = fields.get("type"), fields.get("param"), fields.get("code")
    return Fault(
        status,
        message[:_MAX_MESSAGE_LENGTH].strip() or f"The worker answered {status} {_phrase(status)}".rstrip(),
        kind if isinstance(kind, str) else None,
        param if isinstance(param, str) else None,
        _worker_code(status, message, code) if isinstance(code, str | int | None) else None,
    )


def reason_in(body: bytes) -> str:
    """Return the reason in an upstream's error *body* as one line of bounded length; ``""`` without one."""
    return " ".join(_message_in(body)[0].split())[:_MAX_TEXT_LENGTH]


def _openai_body(fault: Fault) -> bytes:
    error = {
        "message": fault.message,
        "type": fault.type or _openai_type(fault.status),
        "param": fault.param,
        "code": _openai_code(fault.code),
    }
    return msgspec.json.encode({"error": error})


def _openai_event(fault: Fault, number: int) -> bytes:  # noqa: ARG001  # chunks are not counted
    return b"data: " + _openai_body(fault) + b"\n\n"


def _openai_code(code: Any) -> str | None:
    """Return *code* if it is a name, as in OpenAI's API; None for a status, which vLLM, SGLang and Dynamo send."""
    return code if isinstance(code, str) and not _is_status(code) else None


def _worker_code(status: int, message: str, code: Any) -> Any:
    """Return OpenAI's code for a prompt that is too long, which engines do not send; otherwise *code*."""
    is_named = _openai_code(code) is not None
    if is_named or status not in _OVERFLOW_STATUSES or not is_overflow(message[:MAX_READ_BYTES]):
        return code
    return PromptTooLong.code


def _as_openai(status: int, said: Any) -> Any:
    match said:
        case {"error": {"message": str(message), **rest} as error}:
            code = _openai_code(_worker_code(status, message, rest.get("code")))
            return said if rest.get("code") == code else {**said, "error": {**error, "code": code}}
    return None


def _responses_event(fault: Fault, number: int) -> bytes:
    code = fault.code if fault.code is not None else fault.type or _openai_type(fault.status)
    event = {
        "type": "error",
        "code": str(code),
        "message": fault.message,
        "param": fault.param,
        "sequence_number": number,
    }
    return b"event: error\ndata: " + msgspec.json.encode(event) + b"\n\n"


def _anthropic_body(fault: Fault) -> bytes:
    body: dict[str, Any] = {
        "type": "error",
        "error": {"type": _anthropic_type(fault), "message": fault.message},
    }
    if fault.request_id is not None:
        body["request_id"] = fault.request_id
    return msgspec.json.encode(body)


def _anthropic_event(fault: Fault, number: int) -> bytes:  # noqa: ARG001  # events are not counted
    return b"event: error\ndata: " + _anthropic_body(fault) + b"\n\n"


def _as_anthropic(status: int, said: Any) -> Any:  # noqa: ARG001  # the type decides
    """Return *said* if its type is one of Anthropic's; vLLM sends types of its own in Anthropic's envelope."""
    match said:
        case {"type": "error", "error": {"type": str(kind), "message": str()}} if kind.endswith("_error"):
            return said
    return None


OPENAI = ErrorShape(_openai_body, _openai_event, _as_openai)
RESPONSES = ErrorShape(_openai_body, _responses_event, _as_openai)
ANTHROPIC = ErrorShape(_anthropic_body, _anthropic_event, _as_anthropic)

# docs.anthropic.com/en/api/errors; 503 is overload in all other APIs.
_ANTHROPIC_TYPES: Mapping[int, str] = MappingProxyType(
    {
        401: "authentication_error",
        402: "billing_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        503: "overloaded_error",
        504: "timeout_error",
        529: "overloaded_error",
    }
)


_OPENAI_TYPES: Mapping[int, str] = MappingProxyType(
    {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
)


def _anthropic_type(fault: Fault) -> str:
    default = "invalid_request_error" if fault.status < 500 else "api_error"
    return _ANTHROPIC_TYPES.get(fault.status, default)


def _openai_type(status: int) -> str:
    if status in _OPENAI_TYPES:
        return _OPENAI_TYPES[status]
    return "invalid_request_error" if status < 500 else "server_error"


def _message_in(body: bytes) -> tuple[str, Mapping[str, Any]]:
    """Return the message of an error *body*, or ``""``, and its other fields."""
    fields: Mapping[str, Any] = {}
    message = ""
    match _json_in(body):
        case {"error": {"message": str(message)} as fields}:
            pass
        case {"error": str(message)} | {"detail": str(message)} | str(message):
            pass
        case {"message": str(message)} as fields:
            pass
        case {"detail": [*details]}:
            message, fields = _complaints(details)
        case None:
            message = _text_in(body)
    return message, fields


def _complaints(details: list[Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the messages of FastAPI's validation, without quoted inputs; *param* is the first field."""
    messages: list[str] = []
    params: list[str] = []
    for detail in details[:_MAX_DETAILS]:
        match detail:
            case {"msg": str(message), "loc": ["body", *path]}:
                params.append(".".join(map(str, path)))
                messages.append(f"{params[-1]}: {message}" if path else message)
            case {"msg": str(message)}:
                messages.append(message)
    return "; ".join(messages), {"param": params[0]} if params and params[0] else {}


def _text_in(body: bytes) -> str:
    """Return plain text as one line of bounded length; ``""`` for HTML and for malformed JSON."""
    text = " ".join(body[: 4 * _MAX_TEXT_LENGTH].decode("utf-8", "ignore").split())
    return "" if text.startswith(("<", "[", "{")) else text[:_MAX_TEXT_LENGTH]


def _json_in(body: bytes) -> Any:
    """Return the JSON value *body*, None if malformed. Very long ones are not read: no engine sends them."""
    if len(body) > _MAX_READ_BYTES:
        return {}
    try:
        return msgspec.json.decode(body)
    except DECODE_ERRORS:
        return None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
