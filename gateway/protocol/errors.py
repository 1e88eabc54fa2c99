"""Errors of requests, with their HTTP status and OpenAI's error codes.

    GatewayError
    +-- ClientError             caused by the caller: never retried, never counted against a worker
    |   +-- MalformedBody       400, names the place
    |   +-- InvalidField        400, names the field
    |   +-- PromptTooLong       400 context_length_exceeded, no backend has room for it
    |   +-- ContentBlocked      400 content_policy_violation, names the guardrail
    |   +-- InvalidKey          401 invalid_api_key
    |   +-- AdminKeyRefused     401 invalid_admin_key
    |   +-- AdminClosed         403, no admin keys are configured
    |   +-- Forbidden           403, the key is known but has no permission
    |   +-- UnknownModel        404 model_not_found
    |   +-- UnknownResponse     404 response_not_found
    |   +-- UnknownFile         404 file_not_found
    |   +-- UnknownBatch        404 batch_not_found
    |   +-- UnknownWorker       404 worker_not_found
    |   +-- UnknownRoute        404
    |   +-- UnknownEntity       404, a team or a key
    |   +-- MethodNotAllowed    405
    |   +-- RequestTooSlow      408, the head or body arrived too slowly
    |   +-- Conflict            409, the present state does not allow the change
    |   +-- PreconditionFailed  412, changed since the caller read it
    |   +-- BodyTooLarge        413
    |   +-- UnsupportedMedia    415
    |   +-- RateLimited         429 rate_limit_exceeded + retry-after: a limit is reached
    |   +-- QuotaSpent          429 insufficient_quota + x-should-retry: false
    |   +-- HeadTooLarge        431, before the request is read
    +-- TooManyConnections      503 + retry-after, before a request is read
    +-- AtCapacity              503 + retry-after: the limit of concurrent requests is reached
    +-- NoWorker                503 + retry-after: no backend is available
    +-- QueueFull               503 + retry-after: the wait for a worker would be too long
    |   +-- WaitsTooLong        internal: a fallback should answer
    +-- StoreUnavailable               503 + retry-after: the store of keys or quotas is unavailable
    +-- FilesUnavailable        503 + retry-after: the folder or bucket of files cannot be read or written
    |   +-- ContentMissing      a file is in the store, and its content is not in the folder or bucket
    +-- IssuerUnavailable       503 + retry-after: the keys of an identity provider cannot be read
    +-- MemoryShort             503 + retry-after: a memory limit is reached
    +-- GuardrailUnavailable           503 + retry-after: a guardrail gave no verdict
    |   +-- TooMuchToScan       400 guardrail_limit, too much text for the time limit
    +-- Stopping                503 + retry-after: this gateway is stopping
    +-- UpstreamError           caused by a backend
        +-- ConnectFailed       502, refused or unreachable; nothing was sent
        +-- UpstreamTimeout     504, connect / first byte / idle / total
        +-- ReplyBroken         502, incomplete or unreadable, before or after the first byte
        +-- HandedOver          502, its worker is being drained; not an error of the worker
        +-- PrefillFailed       502, no prefill worker computed the prompt
        +-- AdapterMissing      503, the worker does not have the requested LoRA adapter
        +-- UpstreamRefused     the status that the backend answered

Each class has a `status`, a `source` (client, gateway or upstream) and the flag `retryable`. Only these three values
decide the OpenAI error body, the metric label, the log field, and whether the next candidate is tried.
"""

import math
from typing import ClassVar, Final, Literal

import msgspec

Source = Literal["client", "gateway", "upstream"]
DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions raised when JSON or MessagePack is malformed or has an unexpected structure."""


class GatewayError(Exception):
    """Failure that is reported to the caller in OpenAI's error format."""

    status: int = 500
    source: ClassVar[Source] = "gateway"
    retryable: ClassVar[bool] = False
    type: ClassVar[str] = "server_error"
    code: ClassVar[str | None] = "internal_error"

    def __init__(self, message: str, *, param: str | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s
        self.headers: tuple[tuple[bytes, bytes], ...] = ()
        """Additional headers of the error response."""
        self.whose: tuple[str, str] | None = None
        """Team and key of the refused caller, or None if unknown. They appear in the log, but not in the answer."""

    @property
    def response_headers(self) -> list[tuple[bytes, bytes]]:
        """Headers of the error response, except those that describe its body."""
        headers = list(self.headers)
        if self.retry_after_s is not None and not any(name == b"retry-after" for name, _ in headers):
            headers.append((b"retry-after", b"%d" % max(1, math.ceil(self.retry_after_s))))
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        return headers

    @property
    def reason(self) -> str:
        """Name of the error for metric labels and log lines, from a fixed set of names."""
        return type(self).__name__

    def to_body(self) -> bytes:
        """Return the error in the format that OpenAI's SDKs expect, in UTF-8 JSON."""
        return msgspec.json.encode(
            {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}
        )


class ClientError(GatewayError):
    status = 400
    source = "client"
    type = "invalid_request_error"
    code: ClassVar[str | None] = None


class MalformedBody(ClientError):
    """Raised if the body is not a JSON object that the endpoint accepts, or the request is not valid HTTP."""


class InvalidField(ClientError):
    """Raised if a field of the body has an invalid value. *param* names the field."""


class PromptTooLong(ClientError):
    """Raised if the prompt and the requested output do not fit into the context of any backend of the model."""

    code = "context_length_exceeded"


class ContentBlocked(ClientError):
    """Raised if a guardrail blocks a request or its answer. The message does not show what was found."""

    code = "content_policy_violation"

    def __init__(self, guardrail: str) -> None:
        super().__init__(f"The guardrail {guardrail!r} blocked the request or its answer")
        self.guardrail = guardrail


class InvalidKey(ClientError):
    """Raised if the key is missing, unknown, expired or blocked. *reason* is a sentence that says which.

    The message begins with OpenAI's words, by which LiteLLM and other clients recognize a wrong key.
    """

    status = 401
    type = "authentication_error"
    code = "invalid_api_key"

    def __init__(self, reason: str) -> None:
        super().__init__(f"Incorrect API key provided. {reason}.")
        self.cause = reason


class Forbidden(ClientError):
    """Raised if the key is known but lacks the permission. *code* is model_not_allowed, source_not_allowed,
    or similar.
    """

    status = 403
    type = "permission_error"

    def __init__(self, message: str, *, code: str, param: str | None = None) -> None:
        super().__init__(message, param=param)
        self.code = code  # type: ignore[misc]  # of the instance


class RateLimited(ClientError):
    """Raised if a rate limit is reached. *type* is ``requests`` or ``tokens``, as in OpenAI's API."""

    status = 429
    code = "rate_limit_exceeded"

    def __init__(
        self, message: str, *, counted: Literal["requests", "tokens"] = "requests", refused_by: str | None = None
    ) -> None:
        """Create the error. *refused_by* is the label of the limit that was exceeded; see `Exchange.refused_by`."""
        super().__init__(message)
        self.type = counted  # type: ignore[misc]  # of the instance
        self.refused_by = refused_by


class QuotaSpent(ClientError):
    """Raised if a budget is spent, or the request is larger than a limit. A retry cannot succeed."""

    status = 429
    type = "insufficient_quota"
    code = "insufficient_quota"

    def __init__(self, message: str, *, refused_by: str | None = None) -> None:
        """Create the error. *refused_by* is the label of the limit that was exceeded; see `Exchange.refused_by`."""
        super().__init__(message)
        self.refused_by = refused_by


class UnknownEntity(ClientError):
    """Raised if the team or key does not exist."""

    status = 404
    code = "not_found"


class Conflict(ClientError):
    """Raised if an object already exists or cannot be changed in its current state."""

    status = 409
    code = "conflict"


class PreconditionFailed(ClientError):
    """Raised if an object is not in the state that the caller requires."""

    status = 412
    code = "precondition_failed"


class AdminKeyRefused(ClientError):
    """Raised if the request has no valid admin key."""

    status = 401
    code = "invalid_admin_key"


class AdminClosed(ClientError):
    """Raised if the admin routes are closed because the settings contain no admin keys."""

    status = 403
    code = "admin_closed"


class UnknownModel(ClientError):
    """Raised if the gateway serves no model of the requested name."""

    status = 404
    code = "model_not_found"


class UnknownResponse(ClientError):
    """Raised if no worker keeps the response that the caller names."""

    status = 404
    code = "response_not_found"


class UnknownFile(ClientError):
    """Raised if the caller's team has no file with the id that the caller names."""

    status = 404
    code = "file_not_found"


class UnknownBatch(ClientError):
    """Raised if the caller's team has no batch with the id that the caller names."""

    status = 404
    code = "batch_not_found"


class UnknownWorker(ClientError):
    """Raised if the model has no worker of the given id."""

    status = 404
    code = "worker_not_found"


class UnknownRoute(ClientError):
    """Raised if the gateway does not serve the path."""

    status = 404
    code = "unknown_url"


class MethodNotAllowed(ClientError):
    """Raised if the gateway serves the path, but not with this method."""

    status = 405
    code = "method_not_allowed"


class RequestTooSlow(ClientError):
    """Raised if the head or the body of the request arrives too slowly."""

    status = 408
    code = "request_timeout"


class BodyTooLarge(ClientError):
    """Raised if the body of the request is larger than the limit."""

    status = 413
    code = "request_too_large"


class UnsupportedMedia(ClientError):
    """Raised if the body has a content type or an encoding that the endpoint does not accept."""

    status = 415
    code = "unsupported_media_type"


class HeadTooLarge(ClientError):
    """Raised if the request line and headers are larger than the limit."""

    status = 431
    code = "headers_too_large"


class TooManyConnections(GatewayError):
    """Raised if the limit of client connections is reached."""

    status = 503
    type = "service_unavailable_error"
    code = "too_many_connections"


class AtCapacity(GatewayError):
    """Raised if the limit of concurrent requests is reached."""

    status = 503
    type = "service_unavailable_error"
    code = "at_capacity"


class NoWorker(GatewayError):
    """Raised if no backend is available. *retry_after_s* is the number of seconds until a retry makes sense."""

    status = 503
    type = "service_unavailable_error"
    code = "no_worker_available"


class QueueFull(GatewayError):
    """Raised if the queue is full, or the wait for a worker would be too long."""

    status = 503
    type = "service_unavailable_error"
    code = "queue_full"


class WaitsTooLong(QueueFull):
    """Raised if the wait for a worker would be too long and a fallback can answer instead."""


class StoreUnavailable(GatewayError):
    """Raised if the store of keys and quotas is unavailable. Nothing has been charged."""

    status = 503
    type = "service_unavailable_error"
    code = "store_unavailable"


class FilesUnavailable(GatewayError):
    """Raised if the folder or bucket of files cannot be read or written."""

    status = 503
    type = "service_unavailable_error"
    code = "files_unavailable"


class ContentMissing(FilesUnavailable):
    """Raised if the folder or bucket of this gateway does not have a content."""


class IssuerUnavailable(GatewayError):
    """Raised if a token cannot be verified because the keys of its issuer cannot be read. Nothing has been charged."""

    status = 503
    type = "service_unavailable_error"
    code = "issuer_unavailable"


class MemoryShort(GatewayError):
    """Raised if the gateway has no memory left for the request. Nothing has been charged."""

    status = 503
    type = "service_unavailable_error"
    code = "memory_exhausted"


class GuardrailUnavailable(GatewayError):
    """Raised if a guardrail returned no verdict on a text. The text is then blocked."""

    status = 503
    type = "service_unavailable_error"
    code = "guardrail_unavailable"


class TooMuchToScan(GuardrailUnavailable):
    """Raised if a guardrail would need more time for the texts than its limit. The same request would fail
    again.
    """

    status = 400
    source = "client"
    type = "invalid_request_error"
    code = "guardrail_limit"


class Stopping(GatewayError):
    """Raised if the gateway is stopping and the request has used the whole grace period."""

    status = 503
    type = "service_unavailable_error"
    code = "gateway_stopping"


class UpstreamError(GatewayError):
    """Raised if a backend failed. The next candidate is tried if no byte has been sent to the caller."""

    status = 502
    source = "upstream"
    retryable = True
    type = "upstream_error"
    code = "upstream_error"


class ConnectFailed(UpstreamError):
    """Raised if a backend refuses connections or cannot be reached. Nothing was sent to it."""

    code = "upstream_unreachable"


class UpstreamTimeout(UpstreamError):
    """Raised if a backend takes too long. *phase* is connect, first_byte, idle or total."""

    status = 504
    code = "upstream_timeout"

    def __init__(self, message: str, *, phase: Literal["connect", "first_byte", "idle", "total"]) -> None:
        super().__init__(message)
        self.phase = phase


class ReplyBroken(UpstreamError):
    """Raised if the answer of a backend is incomplete or unreadable."""

    code = "upstream_broken"


class HandedOver(UpstreamError):
    """Raised if a stream must move to another worker because its worker is being drained."""

    code = "upstream_drained"


class PrefillFailed(UpstreamError):
    """Raised if no prefill worker computed the prompt and the decode worker cannot compute it. The decode worker is not
    at fault.
    """

    code = "prefill_failed"


class AdapterMissing(UpstreamError):
    """Raised if the worker does not have the LoRA adapter of the request. This does not count as a failure of the
    worker.
    """

    status = 503
    code = "adapter_not_loaded"


class UpstreamRefused(UpstreamError):
    """Raised if the backend answered with an error status (5xx, 408 or 429)."""

    code = "upstream_refused"

    def __init__(self, message: str, *, status: int, retry_after_s: float | None = None) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.status = status
