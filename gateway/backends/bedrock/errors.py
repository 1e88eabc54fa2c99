"""Errors of Bedrock, and the HTTP status, error type and error code with which clients receive them.

1. Each Bedrock error has a *kind* such as ``ThrottlingException``. If the kind is unknown, its HTTP status decides.
2. The client's mistakes keep status 400. The operator's mistakes (credentials, model id) become 5xx, because the client
   cannot correct them.
3. A message never contains an ARN, an account id or an access key. The text of an authentication error is never quoted,
   because Bedrock includes signed headers and session tokens in some of these messages.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.backends.bedrock.json_object import read_object
from gateway.backends.bedrock.refusals import OutputLimit, Unsupported
from gateway.protocol.context_overflow import is_overflow
from gateway.protocol.errors import ReplyBroken, UpstreamError, UpstreamTimeout

_MAX_MESSAGE_CHARACTERS = 500

_ARN = re.compile(r"arn:aws[\w-]*:[^\s\"',;)\]]+")
_ACCOUNT = re.compile(r"(?<!\d)\d{12}(?!\d)")
_ACCESS_KEY = re.compile(r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}\b")


_ADDRESS = re.compile(
    r"\bhttps?://[^\s\"',;)\]]+|\b(?:[\w-]+\.)+(?:amazonaws\.com(?:\.cn)?|api\.aws|internal|local)\b(?::\d+)?"
    r"|(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])(?::\d+)?",
    re.IGNORECASE,
)
"""Pattern for URLs, internal host names (AWS or cluster) and IPv4 addresses."""


def redact(text: str) -> str:
    """Return *text* with placeholders in place of ARNs, 12-digit account ids, access key ids and addresses."""
    text = _ACCOUNT.sub("[account]", _ARN.sub("[arn]", text))
    return _ADDRESS.sub("[address]", _ACCESS_KEY.sub("[key]", text))


def public_id(model_id: str) -> str:
    """Return *model_id* in a form that clients are allowed to see, without the region and account id of an ARN."""
    named = model_id.split(":", 5)[-1] if model_id.startswith("arn:") else model_id
    return _ACCOUNT.sub("[account]", named)


@dataclass(frozen=True, slots=True)
class BedrockFault:
    """Error that Bedrock reports, either instead of a response or in the middle of a stream."""

    kind: str
    status: int
    type: str
    code: str | None
    message: str
    retry_after_s: int | None = None
    unsupported: Unsupported | None = None
    """Request field that the model does not support, or None if the error has another cause."""
    output_limit: OutputLimit | None = None
    """Output token limit that Bedrock would accept, or None if the error has another cause."""

    @property
    def means_expired(self) -> bool:
        """Return whether the AWS credentials have expired, so that a refresh might help."""
        return self.kind.lower().removesuffix("exception") == "expiredtoken"

    def to_body(self) -> bytes:
        """Return the error as a JSON body in OpenAI's error format, UTF-8 encoded."""
        return msgspec.json.encode(
            {"error": {"message": self.message, "type": self.type, "param": None, "code": self.code}}
        )

    def to_error(self) -> UpstreamError:
        """Return the error as an exception for a stream whose status has already been sent."""
        if self.status == 504:
            return UpstreamTimeout(self.message, phase="total")
        return ReplyBroken(self.message)


@dataclass(frozen=True, slots=True)
class _Class:
    status: int
    type: str
    code: str | None


_BAD_REQUEST = _Class(400, "invalid_request_error", None)
_TOO_LONG = _Class(400, "invalid_request_error", "context_length_exceeded")
_AUTH = _Class(502, "upstream_error", "upstream_auth")
_NO_MODEL = _Class(503, "service_unavailable_error", "upstream_model_unavailable")
_THROTTLED = _Class(429, "rate_limit_error", "rate_limit_exceeded")
_UNAVAILABLE = _Class(503, "service_unavailable_error", "upstream_unavailable")
_TIMEOUT = _Class(504, "upstream_error", "upstream_timeout")
_FAILED = _Class(502, "upstream_error", "upstream_error")
_INTERNAL = _Class(500, "upstream_error", "upstream_error")

_BY_KIND = {
    "validation": _BAD_REQUEST,
    "accessdenied": _AUTH,
    "unrecognizedclient": _AUTH,
    "invalidclienttokenid": _AUTH,
    "invalidsignature": _AUTH,
    "signaturedoesnotmatch": _AUTH,
    "incompletesignature": _AUTH,
    "missingauthenticationtoken": _AUTH,
    "expiredtoken": _AUTH,
    "resourcenotfound": _NO_MODEL,
    "throttling": _THROTTLED,
    "toomanyrequests": _THROTTLED,
    "servicequotaexceeded": _THROTTLED,
    "modelnotready": _UNAVAILABLE,
    "serviceunavailable": _UNAVAILABLE,
    "modeltimeout": _TIMEOUT,
    "modelerror": _FAILED,
    "modelstreamerror": _FAILED,
    "internalserver": _INTERNAL,
    "internalfailure": _INTERNAL,
}
_BY_STATUS = {
    400: _BAD_REQUEST,
    401: _AUTH,
    403: _AUTH,
    404: _NO_MODEL,
    408: _TIMEOUT,
    429: _THROTTLED,
    500: _INTERNAL,
    503: _UNAVAILABLE,
    504: _TIMEOUT,
}

# Wordings of ValidationException met in the field. The first group is not about the request at all.
_NO_SUCH_MODEL = re.compile(
    "model identifier is invalid|on-demand throughput isn.t supported|end of its life",
    re.IGNORECASE,
)

_NAME = r"[`'\"]?(?P<field>[\w.]{1,64})[`'\"]?"
_UNSUPPORTED = tuple(
    re.compile(wording, re.IGNORECASE)
    for wording in (
        rf"model doesn.t support the {_NAME} field",  # Converse
        # Claude names two in "cannot both be specified for this model. Please use only one."
        rf"[`'\"]?(?P<beside>\w{{1,64}})[`'\"]? and {_NAME} cannot both be (?:specified|set|used)",
        # Claude of sampling fields from Opus 4.7 on, and of thinking.type.enabled
        rf"{_NAME} (?:is|are) (?:deprecated|not supported|unsupported|not allowed) (?:for|with|by|on) this model",
        rf"unsupported (?:parameter|value): {_NAME}",  # OpenAI
        rf"unrecognized request arguments? supplied: {_NAME}",
        rf"extraneous key \[{_NAME}\] is not permitted",  # schemas of Bedrock's models
        rf"\b{_NAME}: Extra inputs are not permitted",  # pydantic, as Anthropic and vLLM have it
    )
)
_NEVER_A_FIELD = {"model", "it", "this", "that", "feature"}

_MODEL_LIMITS = tuple(
    re.compile(wording, re.IGNORECASE)
    for wording in (
        r"maximum tokens you requested exceeds the model limit of (\d{1,9})",  # Converse
        r"max_?tokens\W{1,4}\d{1,9} > (\d{1,9})",  # Claude: "max_tokens: 100000 > 64000, which is the maximum allowed"
        r"supports at most (\d{1,9}) (?:completion|output) tokens",  # OpenAI
        r"max_?(?:completion_)?tokens=\d{1,9} cannot be greater than \w{1,40}=(\d{1,9})",  # vLLM, of max_model_len
        r"max_?(?:completion_|output_)?tokens\b\D{0,120}(?:less than or equal to|at most|must not exceed|cannot exceed)"
        r"\D{0,3}(\d{1,9})",
    )
)
_CONTEXT_LIMITS = tuple(
    re.compile(wording, re.IGNORECASE)
    for wording in (
        # vLLM, of max_tokens that are too large; the second number counts the prompt
        r"maximum context length (?:is|of) (\d{1,9}) tokens\D{1,80}?has (\d{1,9}) input tokens",
        # OpenAI and older vLLM, which tell the prompt's part of what was requested
        r"maximum context length (?:is|of) (\d{1,9}) tokens\D{1,80}?\d{1,9} tokens \((\d{1,9}) in the (?:mess|prompt)",
    )
)
_CLAUDE_CONTEXT = re.compile(r"exceed context limit: (\d{1,9}) \+ \d{1,9} > (\d{1,9})", re.IGNORECASE)
_LEAST_OUTPUT = 16
"""Smallest useful output limit in tokens. Some models reject lower limits."""

# What stands as ``type`` in an error of OpenAI's shape, for those that come inside a stream and have no status.
_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "overloaded_error": 503,
    "service_unavailable_error": 503,
    "timeout_error": 504,
}


def _classify(kind: str, status: int, message: str) -> _Class:
    name = kind.lower().removesuffix("exception")
    found = _BY_KIND.get(name) or _BY_STATUS.get(status, _FAILED)
    if found is not _BAD_REQUEST:
        return found
    if _NO_SUCH_MODEL.search(message):
        return _NO_MODEL
    return _TOO_LONG if is_overflow(message) else _BAD_REQUEST


def fault(kind: str, message: str, *, status: int = 502, retry_after_s: int | None = None) -> BedrockFault:
    """Return the error for *kind*. Bedrock's HTTP status *status* is used only if the kind is unknown."""
    kind = re.sub(r"\W", "", kind)[:64] or "UnknownError"
    found = _classify(kind, status, message)
    if found is _AUTH:
        text = f"Bedrock rejected the gateway's credentials ({kind})"
    else:
        text = f"Bedrock returned {kind}: {redact(message)[:_MAX_MESSAGE_CHARACTERS] or 'no message'}"
    unsupported = _unsupported(message) if found is _BAD_REQUEST else None
    limit = _output_limit(message) if found in {_BAD_REQUEST, _TOO_LONG} else None
    return BedrockFault(kind, found.status, found.type, found.code, text, retry_after_s, unsupported, limit)


def _unsupported(message: str) -> Unsupported | None:
    for wording in _UNSUPPORTED:
        match = wording.search(message)
        if match and match["field"].lower() not in _NEVER_A_FIELD:
            said = match.groupdict()
            return Unsupported(said["field"].strip("."), said.get("beside"))
    return None


def _output_limit(message: str) -> OutputLimit | None:
    for wording in _MODEL_LIMITS:
        if match := wording.search(message):
            return OutputLimit(int(match[1]), is_of_model=True) if int(match[1]) > 0 else None
    left = None
    for wording in _CONTEXT_LIMITS:
        if match := wording.search(message):
            left = int(match[1]) - int(match[2])
            break
    else:
        if match := _CLAUDE_CONTEXT.search(message):
            left = int(match[2]) - int(match[1])
    return OutputLimit(left, is_of_model=False) if left is not None and left >= _LEAST_OUTPUT else None


def fault_of_reply(status: int, headers: Mapping[str, str], body: bytes) -> BedrockFault:
    """Return the error in an HTTP response whose status is not 200. *headers* must have lower-case names.

    The error kind is in ``x-amzn-errortype`` (some services append ``:`` and a URI) or after the ``#`` of ``__type`` in
    the body. OpenAI-compatible paths return an ``error`` object instead. A response from a proxy may contain none of
    these.
    """
    fields = _fields(body)
    kind = headers.get("x-amzn-errortype", "").partition(":")[0]
    if not kind:
        kind = str(fields.get("__type", "")).rpartition("#")[2]
    if isinstance(fields.get("error"), dict):
        fields = fields["error"]
    message = fields.get("message") or fields.get("Message") or ""
    return fault(kind or f"Http{status}", str(message), status=status, retry_after_s=_retry_after_s(headers))


def fault_of_error(error: Mapping[str, Any]) -> BedrockFault:
    """Return the error for the ``error`` object that ends a stream in OpenAI's format."""
    kind, code = str(error.get("type") or ""), error.get("code")
    status = _STATUS_OF_TYPE.get(kind, 502)
    if str(code).isdecimal() and 400 <= int(str(code)) < 600:
        status = int(str(code))
    return fault(kind or "UnknownError", str(error.get("message") or ""), status=status)


def fault_of_exception(kind: str, payload: bytes) -> BedrockFault:
    """Return the error in an exception frame of the event stream. *kind* can end in ``Exception``."""
    return fault(kind, str(_fields(payload).get("message", "")))


def _retry_after_s(headers: Mapping[str, str]) -> int | None:
    """Return the retry delay in whole seconds, rounded up. AWS's own header is in milliseconds, the standard header in
    seconds.
    """
    for name, unit_s in (("x-amz-retry-after", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        if value.isascii() and value.isdigit():
            return math.ceil(int(value) * unit_s)
    return None


def _fields(body: bytes) -> dict[str, Any]:
    """Parse *body* as a JSON object. Return an empty dictionary if it is empty or not JSON, such as an error page from
    a proxy.
    """
    try:
        return read_object(body)
    except ValueError:
        return {}
