"""Errors of requests, with their status and OpenAI's error codes.

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
    +-- MemoryShort             503 + retry-after: a memory limit is reached
    +-- GuardrailUnavailable           503 + retry-after: a guardrail gave no verdict
    |   +-- TooMuchToScan       400 guardrail_limit, too much text for the time limit
    +-- Stopping                503 + retry-after: this gateway is stopping
    +-- UpstreamError           caused by a backend
        +-- ConnectFailed       502, refused or unreachable; nothing was sent
        +-- UpstreamTimeout     504, connect / first byte / idle / total
        +-- ReplyBroken         502, incomplete or unreadable, before or after the first byte
        +-- HandedOver          502, its worker is being drained; not an error of the worker
        +-- AdapterMissing      503, the worker does not have the requested LoRA adapter
        +-- UpstreamRefused     the status that the backend answered

Each class has a `status`, a `source` (client, gateway, upstream) and `retryable`. The OpenAI error body, the metric
label, the log field and the decision to try the next candidate depend on these three only.
"""

import math
from typing import ClassVar, Final, Literal

import msgspec

Source = Literal["client", "gateway", "upstream"]
DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions raised while decoding malformed JSON or MessagePack, or data of another shape than expected."""


class GatewayError(Exception):
    """A failure that is reported to the caller in OpenAI's shape."""

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
        """Additional headers of the response."""
        self.whose: tuple[str, str] | None = None
        """Team and key of the refused caller, if known: for the log, not for the caller."""

    @property
    def response_headers(self) -> list[tuple[bytes, bytes]]:
        """Headers of the response, except those of its body."""
        headers = list(self.headers)
        if self.retry_after_s is not None and not any(name == b"retry-after" for name, _ in headers):
            headers.append((b"retry-after", b"%d" % max(1, math.ceil(self.retry_after_s))))
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        return headers

    @property
    def reason(self) -> str:
        """Name of the error for metric labels and log lines, from a closed set."""
        return type(self).__name__

    def to_body(self) -> bytes:
        """Return the error as OpenAI's SDKs expect it, in UTF-8 JSON."""
        return msgspec.json.encode(
            {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}
        )


class ClientError(GatewayError):
    status = 400
    source = "client"
    type = "invalid_request_error"
    code: ClassVar[str | None] = None


class MalformedBody(ClientError):
    """The body is not a JSON object that the endpoint accepts, or the request is not valid HTTP."""


class InvalidField(ClientError):
    """A field of the body has an invalid value; *param* names it."""


class PromptTooLong(ClientError):
    """The prompt and the requested output do not fit into the context of any backend of the model."""

    code = "context_length_exceeded"


class ContentBlocked(ClientError):
    """A guardrail blocked a request or its answer. The message does not show what was found."""

    code = "content_policy_violation"

    def __init__(self, guardrail: str) -> None:
        super().__init__(f"The guardrail {guardrail!r} does not let this pass")
        self.guardrail = guardrail


class InvalidKey(ClientError):
    """The key is missing, unknown, expired or blocked; *reason* says which, as a sentence.

    The message begins with OpenAI's words, by which LiteLLM and others recognize a wrong key.
    """

    status = 401
    type = "authentication_error"
    code = "invalid_api_key"

    def __init__(self, reason: str) -> None:
        super().__init__(f"Incorrect API key provided. {reason}.")


class Forbidden(ClientError):
    """The key is known but not permitted to do this; *code* is model_not_allowed, source_not_allowed, ..."""

    status = 403
    type = "permission_error"

    def __init__(self, message: str, *, code: str, param: str | None = None) -> None:
        super().__init__(message, param=param)
        self.code = code  # type: ignore[misc]  # of the instance


class RateLimited(ClientError):
    """A rate limit is reached. *type* is ``requests`` or ``tokens``, as in OpenAI's API."""

    status = 429
    code = "rate_limit_exceeded"

    def __init__(
        self, message: str, *, counted: Literal["requests", "tokens"] = "requests", refused_by: str | None = None
    ) -> None:
        """*refused_by* becomes `Exchange.refused_by`."""
        super().__init__(message)
        self.type = counted  # type: ignore[misc]  # of the instance
        self.refused_by = refused_by


class QuotaSpent(ClientError):
    """A budget is spent, or the request is larger than a limit: a retry is useless."""

    status = 429
    type = "insufficient_quota"
    code = "insufficient_quota"

    def __init__(self, message: str, *, refused_by: str | None = None) -> None:
        """*refused_by* becomes `Exchange.refused_by`."""
        super().__init__(message)
        self.refused_by = refused_by


class UnknownEntity(ClientError):
    """The team or key does not exist."""

    status = 404
    code = "not_found"


class Conflict(ClientError):
    """The object exists already, or cannot be changed here."""

    status = 409
    code = "conflict"


class PreconditionFailed(ClientError):
    """The object is not in the state that the caller requires."""

    status = 412
    code = "precondition_failed"


class AdminKeyRefused(ClientError):
    """The request has no valid admin key."""

    status = 401
    code = "invalid_admin_key"


class AdminClosed(ClientError):
    """The admin routes are closed: the settings have no admin keys."""

    status = 403
    code = "admin_closed"


class UnknownModel(ClientError):
    status = 404
    code = "model_not_found"


class UnknownResponse(ClientError):
    """No worker keeps the response that the caller names."""

    status = 404
    code = "response_not_found"


class UnknownWorker(ClientError):
    status = 404
    code = "worker_not_found"


class UnknownRoute(ClientError):
    status = 404
    code = "unknown_url"


class MethodNotAllowed(ClientError):
    status = 405
    code = "method_not_allowed"


class RequestTooSlow(ClientError):
    """The head or the body of the request arrived too slowly."""

    status = 408
    code = "request_timeout"


class BodyTooLarge(ClientError):
    status = 413
    code = "request_too_large"


class UnsupportedMedia(ClientError):
    status = 415
    code = "unsupported_media_type"


class HeadTooLarge(ClientError):
    """The request line and headers are larger than the limit."""

    status = 431
    code = "headers_too_large"


class TooManyConnections(GatewayError):
    """The limit of client connections is reached."""

    status = 503
    type = "service_unavailable_error"
    code = "too_many_connections"


class AtCapacity(GatewayError):
    """The limit of concurrent requests is reached."""

    status = 503
    type = "service_unavailable_error"
    code = "at_capacity"


class NoWorker(GatewayError):
    """No backend is available. *retry_after_s* says when to try again."""

    status = 503
    type = "service_unavailable_error"
    code = "no_worker_available"


class QueueFull(GatewayError):
    """The queue is full, or the wait would be too long."""

    status = 503
    type = "service_unavailable_error"
    code = "queue_full"


class WaitsTooLong(QueueFull):
    """The wait for a worker would be too long, and a fallback may answer."""


class StoreUnavailable(GatewayError):
    """The store of keys and quotas is unavailable. Nothing has been charged."""

    status = 503
    type = "service_unavailable_error"
    code = "store_unavailable"


class MemoryShort(GatewayError):
    """The gateway has no memory for this request. Nothing has been charged."""

    status = 503
    type = "service_unavailable_error"
    code = "memory_exhausted"


class GuardrailUnavailable(GatewayError):
    """A guardrail gave no verdict on a text, so the text does not pass."""

    status = 503
    type = "service_unavailable_error"
    code = "guardrail_unavailable"


class TooMuchToScan(GuardrailUnavailable):
    """A guardrail would need more time for the texts than its limit: the same request would fail again."""

    status = 400
    source = "client"
    type = "invalid_request_error"
    code = "guardrail_limit"


class Stopping(GatewayError):
    """The gateway stops, and the request has used the whole grace period."""

    status = 503
    type = "service_unavailable_error"
    code = "gateway_stopping"


class UpstreamError(GatewayError):
    """A backend failed. If no byte has been sent, the next candidate is tried."""

    status = 502
    source = "upstream"
    retryable = True
    type = "upstream_error"
    code = "upstream_error"


class ConnectFailed(UpstreamError):
    code = "upstream_unreachable"


class UpstreamTimeout(UpstreamError):
    """*phase* is connect, first_byte, idle or total."""

    status = 504
    code = "upstream_timeout"

    def __init__(self, message: str, *, phase: Literal["connect", "first_byte", "idle", "total"]) -> None:
        super().__init__(message)
        self.phase = phase


class ReplyBroken(UpstreamError):
    code = "upstream_broken"


class HandedOver(UpstreamError):
    """The stream moves to another worker, because this one is being drained."""

    code = "upstream_drained"


class PrefillFailed(UpstreamError):
    """No prefill worker computed the prompt, and the decode worker cannot. It is not to blame."""

    code = "prefill_failed"


class AdapterMissing(UpstreamError):
    """The worker does not have the LoRA adapter of the request. It is not to blame."""

    status = 503
    code = "adapter_not_loaded"


class UpstreamRefused(UpstreamError):
    """The backend answered with an error status (5xx, 408, 429)."""

    code = "upstream_refused"

    def __init__(self, message: str, *, status: int, retry_after_s: float | None = None) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.status = status
