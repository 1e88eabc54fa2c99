"""What went wrong, in the words that the caller's API has for it.

A fault comes from one of two sides: an error of the gateway's own (`fault_of`), or what a worker said, in whichever of
the shapes that engines use (`fault_in`). It leaves in the shape of the endpoint that was asked (`ErrorShape`).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import msgspec

from gateway.errors import GatewayError, PromptTooLong
from gateway.overflow import MAX_READ_BYTES, is_overflow
from gateway.unreadable import UNREADABLE

_LONGEST_MESSAGE = 4096
"""Characters of a message that had to be put in another shape; validation errors may quote the whole prompt."""
_LARGEST_READ_BYTES = 2**20
_LONGEST_TEXT = 500
_MOST_DETAILS = 5

_OVERFLOW_STATUSES = (400, 422)
"""413 is said of bodies, 429 of limits in tokens."""

_is_status = re.compile(r"[0-9]{3}").fullmatch


@dataclass(frozen=True, slots=True)
class Fault:
    """One error, whoever made it. *type*, *param* and *code* are None where nobody said."""

    status: int
    message: str
    type: str | None = None
    param: str | None = None
    code: str | int | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class ErrorShape:
    """How one API tells errors."""

    body: Callable[[Fault], bytes]
    """The body of a response with an error status, UTF-8 JSON."""
    event: Callable[[Fault, int], bytes]
    """The last event of a stream that had begun. The number is that of the event, where the API counts them."""
    fitted: Callable[[int, Any], Any]
    """A worker's JSON, of an answer with that status, if it has this shape: the very same, which can pass byte for
    byte, or a copy in which a field is put right. Else None."""


def fault_of(error: GatewayError, *, request_id: str | None = None) -> Fault:
    """The gateway's own *error*."""
    return Fault(error.status, error.message, error.type, error.param, error.code, request_id)


def normalised(shape: ErrorShape, status: int, body: bytes) -> bytes:
    """A worker's error *body* in *shape*: as it came if it has that shape, else with all that it says. O(bytes)."""
    said = _json_in(body)
    fitted = shape.fitted(status, said)
    if fitted is None:
        return shape.body(fault_in(status, body))
    return body if fitted is said else msgspec.json.encode(fitted)


def fault_in(status: int, body: bytes) -> Fault:
    """What an upstream's error *body* says.

    Known are vLLM's shape (``error`` with an object; for 401 with a string), SGLang's and Dynamo's (flat), Anthropic's,
    FastAPI's (``detail``) and plain text. HTML, or nothing, says no more than the status.
    """
    message, fields = _said_in(body)
    kind, param, code = fields.get("type"), fields.get("param"), fields.get("code")
    return Fault(
        status,
        message[:_LONGEST_MESSAGE].strip() or f"The worker answered {status} {_phrase(status)}".rstrip(),
        kind if isinstance(kind, str) else None,
        param if isinstance(param, str) else None,
        _worker_code(status, message, code) if isinstance(code, str | int | None) else None,
    )


def reason_in(body: bytes) -> str:
    """What an upstream's error *body* gives as its reason, in one line of bounded length; ``""`` if it gives none."""
    return " ".join(_said_in(body)[0].split())[:_LONGEST_TEXT]


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
    """In OpenAI's API a code is a name or null. vLLM, SGLang and Dynamo put the status there, as a number."""
    return code if isinstance(code, str) and not _is_status(code) else None


def _worker_code(status: int, message: str, code: Any) -> Any:
    """OpenAI's name for a prompt that is too long, which clients know it by; engines give it none. Else *code*."""
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


def _as_anthropic(status: int, said: Any) -> Any:  # noqa: ARG001  # the type says it all
    """Its types all end so; vLLM puts its own, such as ``BadRequestError``, into Anthropic's envelope."""
    match said:
        case {"type": "error", "error": {"type": str(kind), "message": str()}} if kind.endswith("_error"):
            return said
    return None


OPENAI = ErrorShape(_openai_body, _openai_event, _as_openai)
RESPONSES = ErrorShape(_openai_body, _responses_event, _as_openai)
ANTHROPIC = ErrorShape(_anthropic_body, _anthropic_event, _as_anthropic)

# docs.anthropic.com/en/api/errors; 503 is what overload is called everywhere else.
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


def _said_in(body: bytes) -> tuple[str, Mapping[str, Any]]:
    """The message of an error *body*, or ``""``, and the fields beside it."""
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
    """What FastAPI's validation says, without the inputs that it quotes; *param* is the first field."""
    told: list[str] = []
    params: list[str] = []
    for detail in details[:_MOST_DETAILS]:
        match detail:
            case {"msg": str(message), "loc": ["body", *path]}:
                params.append(".".join(map(str, path)))
                told.append(f"{params[-1]}: {message}" if path else message)
            case {"msg": str(message)}:
                told.append(message)
    return "; ".join(told), {"param": params[0]} if params and params[0] else {}


def _text_in(body: bytes) -> str:
    """Plain text in one line of bounded length; ``""`` for HTML and for what JSON was meant to be."""
    text = " ".join(body[: 4 * _LONGEST_TEXT].decode("utf-8", "ignore").split())
    return "" if text.startswith(("<", "[", "{")) else text[:_LONGEST_TEXT]


def _json_in(body: bytes) -> Any:
    """The JSON value *body*, None if it is none. Very long ones are not read: no engine says so much."""
    if len(body) > _LARGEST_READ_BYTES:
        return {}
    try:
        return msgspec.json.decode(body)
    except UNREADABLE:
        return None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
