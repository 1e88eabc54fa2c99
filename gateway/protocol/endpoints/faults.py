"""Errors in the format of the caller's API.

A fault is either an error of the gateway (`fault_of`) or an error of a worker in one of the engine formats
(`fault_in`). It is sent in the format of the endpoint (`ErrorShape`).
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
"""Maximum length in characters of an error message to convert. Validation errors sometimes quote the whole prompt."""
_MAX_READ_BYTES = 2**20
_MAX_TEXT_LENGTH = 500
_MAX_DETAILS = 5

_OVERFLOW_STATUSES = (400, 422)
"""HTTP statuses of errors about the context length. Status 413 is for large bodies, and 429 for token limits."""

_is_status = re.compile(r"[0-9]{3}").fullmatch


@dataclass(frozen=True, slots=True)
class Fault:
    """Error of the gateway or of a worker. *type*, *param* and *code* are None if they are unknown."""

    status: int
    message: str
    type: str | None = None
    param: str | None = None
    code: str | int | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class ErrorShape:
    """Format of the errors of an API."""

    body: Callable[[Fault], bytes]
    """Function that returns the body of an error response in UTF-8 JSON."""
    event: Callable[[Fault, int], bytes]
    """Function that returns the last event of a stream. The second argument is the event number, for APIs that number
    events.
    """
    fitted: Callable[[int, Any], Any]
    """Function that checks whether the JSON of a worker's error has the API's format. It returns the same object if the
    error can pass unchanged, a copy with a corrected field, or None if the format differs.
    """


def fault_of(error: GatewayError, *, request_id: str | None = None) -> Fault:
    """Return the description of a gateway error as a `Fault`."""
    return Fault(error.status, error.message, error.type, error.param, error.code, request_id)


def normalized(shape: ErrorShape, status: int, body: bytes) -> bytes:
    """Return the error body *body* of a worker in the format *shape*. A body in this format is returned unchanged.
    Takes O(bytes).
    """
    said = _json_in(body)
    fitted = shape.fitted(status, said)
    if fitted is None:
        return shape.body(fault_in(status, body))
    return body if fitted is said else msgspec.json.encode(fitted)


def fault_in(status: int, body: bytes) -> Fault:
    """Parse the error body *body* of an upstream server.

    The known formats are those of vLLM (``error`` with an object, or for 401 with a string), SGLang and Dynamo (flat),
    Anthropic, FastAPI (``detail``), and plain text. For HTML or an empty body, the message is made from the status.
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
    """Return the reason in an upstream's error body *body* as one line of bounded length, or ``""`` if the body
    contains no reason.
    """
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
    """Return *code* if it is a name, as in OpenAI's API. Return None if it is an HTTP status, as sent by vLLM, SGLang
    and Dynamo.
    """
    return code if isinstance(code, str) and not _is_status(code) else None


def _worker_code(status: int, message: str, code: Any) -> Any:
    """Return OpenAI's code for a prompt that is too long, which engines do not send. For all other errors, return
    *code*.
    """
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
    """Return the error *said* if its type is one of Anthropic's. vLLM sends other types in Anthropic's format."""
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
    """Return the message in an error body, or ``""`` if there is no message, and the other fields of the error."""
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
    """Return the messages of FastAPI's validation errors without quoted inputs. *param* is the first invalid field."""
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
    """Return plain text as one line of bounded length. For HTML and malformed JSON, return ``""``."""
    text = " ".join(body[: 4 * _MAX_TEXT_LENGTH].decode("utf-8", "ignore").split())
    return "" if text.startswith(("<", "[", "{")) else text[:_MAX_TEXT_LENGTH]


def _json_in(body: bytes) -> Any:
    """Return the JSON value in *body*, or None if it is malformed or very long, because engines send no very long
    errors.
    """
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
