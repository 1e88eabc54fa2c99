"""Everything that can go wrong with a request, and what to tell whom.

    GatewayError
    +-- ClientError             the caller's doing: never retried, never counts against a worker
    |   +-- MalformedBody       400, with the place
    |   +-- InvalidField        400, with the field
    |   +-- PromptTooLong       400 context_length_exceeded, no backend has room for it
    |   +-- ContentBlocked      400 content_policy_violation, with the guardrail
    |   +-- InvalidKey          401 invalid_api_key
    |   +-- AdminRefused        401, not the admin token
    |   |   +-- AdminKeyRefused 401 invalid_admin_key
    |   +-- AdminClosed         403, there is no admin token
    |   +-- Forbidden           403, a key that is known, and something that it may not do
    |   +-- UnknownModel        404 model_not_found
    |   +-- UnknownResponse     404 response_not_found
    |   +-- UnknownWorker       404 worker_not_found
    |   +-- UnknownRoute        404
    |   +-- UnknownEntity       404, a team or a key
    |   +-- MethodNotAllowed    405
    |   +-- RequestTooSlow      408, its head or body did not come in time
    |   +-- Conflict            409, another state of things than the caller thought
    |   +-- PreconditionFailed  412, it has been changed since the caller read it
    |   +-- BodyTooLarge        413
    |   +-- UnsupportedMedia    415
    |   +-- RateLimited         429 rate_limit_exceeded + retry-after: a limit has no room now
    |   +-- QuotaSpent          429 insufficient_quota + x-should-retry: false
    |   +-- HeadTooLarge        431, before there is a request
    +-- TooManyConnections      503 + retry-after, before there is a request
    +-- AtCapacity              503 + retry-after: as many requests are served as may be at once
    +-- NoWorker                503 + retry-after: nobody is there to answer
    +-- QueueFull               503 + retry-after: the wait for a worker cannot fit
    |   +-- WaitsTooLong        never told: a fallback had better answer
    +-- StoreAway               503 + retry-after: keys or quotas cannot be looked up
    +-- MemoryShort             503 + retry-after: bodies, or the whole process, take all the memory that they may
    +-- GuardrailAway           503 + retry-after: nobody can say whether a text may pass
    |   +-- TooMuchToScan       400 guardrail_limit, more text than it can look at in its time
    +-- Stopping                503 + retry-after: another gateway may be there
    +-- UpstreamError           a backend's doing
        +-- ConnectFailed       502, refused or unreachable; nothing was sent
        +-- UpstreamTimeout     504, connect / first byte / idle / total
        +-- ReplyBroken         502, cut or unreadable, before or after the first byte
        +-- HandedOver          502, its worker is being drained; nobody's fault
        +-- AdapterMissing      503, a worker does not have the LoRA adapter that was asked for
        +-- UpstreamRefused     the status that the backend itself answered

Three facts hang on each class: `status`, `source` (client, gateway, upstream) and `retryable`. The OpenAI error body,
the metric label, the log field and the decision to try the next candidate come from those three and nowhere else.
"""

import math
from typing import ClassVar, Literal

import msgspec

Source = Literal["client", "gateway", "upstream"]


class GatewayError(Exception):
    """A failure that can be told to the caller in OpenAI's shape."""

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
        """Beside those that follow from what is said here."""
        self.whose: tuple[str, str] | None = None
        """Team and key, where it is known who is refused: for the log, not for the caller."""

    @property
    def response_headers(self) -> list[tuple[bytes, bytes]]:
        """All that the response says in headers, but for its body's."""
        headers = list(self.headers)
        if self.retry_after_s is not None and not any(name == b"retry-after" for name, _ in headers):
            headers.append((b"retry-after", b"%d" % max(1, math.ceil(self.retry_after_s))))
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        return headers

    @property
    def reason(self) -> str:
        """The name of the fault, for metric labels and log lines: a closed set."""
        return type(self).__name__

    def to_body(self) -> bytes:
        """The error as OpenAI's SDKs expect it, UTF-8 JSON."""
        return msgspec.json.encode(
            {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}
        )


class ClientError(GatewayError):
    status = 400
    source = "client"
    type = "invalid_request_error"
    code: ClassVar[str | None] = None


class MalformedBody(ClientError):
    """The body is not the JSON object that the endpoint takes."""


class InvalidField(ClientError):
    """One field of the body has a value that cannot be served; *param* names it."""


class PromptTooLong(ClientError):
    """No backend of the model has room for the prompt and the output that was asked for."""

    code = "context_length_exceeded"


class ContentBlocked(ClientError):
    """A guardrail lets a request, or its answer, not pass. What it found is told to nobody."""

    code = "content_policy_violation"

    def __init__(self, guardrail: str) -> None:
        super().__init__(f"The guardrail {guardrail!r} does not let this pass")
        self.guardrail = guardrail


class InvalidKey(ClientError):
    """The caller brought no key, or one that is not known, expired or blocked; *reason* says which, as a sentence.

    The message begins with OpenAI's words: LiteLLM and others tell a wrong key from other faults by them.
    """

    status = 401
    type = "authentication_error"
    code = "invalid_api_key"

    def __init__(self, reason: str) -> None:
        super().__init__(f"Incorrect API key provided. {reason}.")


class Forbidden(ClientError):
    """The key is known and may not do this; *code* says what: model_not_allowed, source_not_allowed, ..."""

    status = 403
    type = "permission_error"

    def __init__(self, message: str, *, code: str, param: str | None = None) -> None:
        super().__init__(message, param=param)
        self.code = code  # type: ignore[misc]  # of the instance


class RateLimited(ClientError):
    """A limit has no room at this moment. *type* is ``requests`` or ``tokens``, as OpenAI has it."""

    status = 429
    code = "rate_limit_exceeded"

    def __init__(
        self, message: str, *, counted: Literal["requests", "tokens"] = "requests", refused_by: str | None = None
    ) -> None:
        """*refused_by* is what `Exchange.refused_by` is to be."""
        super().__init__(message)
        self.type = counted  # type: ignore[misc]  # of the instance
        self.refused_by = refused_by


class QuotaSpent(ClientError):
    """A budget is spent, or the request can never fit into a limit: asking again is of no use."""

    status = 429
    type = "insufficient_quota"
    code = "insufficient_quota"

    def __init__(self, message: str, *, refused_by: str | None = None) -> None:
        """*refused_by* is what `Exchange.refused_by` is to be."""
        super().__init__(message)
        self.refused_by = refused_by


class UnknownEntity(ClientError):
    """There is no such team or key."""

    status = 404
    code = "not_found"


class Conflict(ClientError):
    """What is to be made is there already, or cannot be changed here."""

    status = 409
    code = "conflict"


class PreconditionFailed(ClientError):
    """What is to be changed is not as the caller says that it must be."""

    status = 412
    code = "precondition_failed"


class AdminRefused(ClientError):
    """The caller did not bring the admin token."""

    status = 401
    code = "invalid_admin_token"


class AdminKeyRefused(AdminRefused):
    """The caller did not bring one of the admin keys."""

    code = "invalid_admin_key"


class AdminClosed(ClientError):
    """Nobody may use the admin routes: there is no token that would open them."""

    status = 403
    code = "admin_closed"


class UnknownModel(ClientError):
    status = 404
    code = "model_not_found"


class UnknownResponse(ClientError):
    """No worker keeps the response that was asked for, or gone on from."""

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
    """The head or the body of the request did not come in time, or not fast enough."""

    status = 408
    code = "request_timeout"


class BodyTooLarge(ClientError):
    status = 413
    code = "request_too_large"


class UnsupportedMedia(ClientError):
    status = 415
    code = "unsupported_media_type"


class HeadTooLarge(ClientError):
    """The request line and headers are larger than the server takes."""

    status = 431
    code = "headers_too_large"


class TooManyConnections(GatewayError):
    """The server has as many client connections as it is allowed."""

    status = 503
    type = "service_unavailable_error"
    code = "too_many_connections"


class AtCapacity(GatewayError):
    """As many requests are being served as the settings allow."""

    status = 503
    type = "service_unavailable_error"
    code = "at_capacity"


class NoWorker(GatewayError):
    """No backend is there to answer. *retry_after_s* says when it is worth asking again."""

    status = 503
    type = "service_unavailable_error"
    code = "no_worker_available"


class QueueFull(GatewayError):
    """More requests wait than could be answered in time."""

    status = 503
    type = "service_unavailable_error"
    code = "queue_full"


class WaitsTooLong(QueueFull):
    """A worker would begin later than the request should wait, and something else may answer it."""


class StoreAway(GatewayError):
    """The store of keys and quotas cannot be reached. Nothing has been charged."""

    status = 503
    type = "service_unavailable_error"
    code = "store_unavailable"


class MemoryShort(GatewayError):
    """The gateway has no memory left for this request. Nothing has been charged."""

    status = 503
    type = "service_unavailable_error"
    code = "memory_exhausted"


class GuardrailAway(GatewayError):
    """A guardrail did not say whether a text may pass, and without its word nothing does."""

    status = 503
    type = "service_unavailable_error"
    code = "guardrail_unavailable"


class TooMuchToScan(GuardrailAway):
    """A guardrail would need longer for the texts of a request than it has: the same request would fail again."""

    status = 400
    source = "client"
    type = "invalid_request_error"
    code = "guardrail_limit"


class Stopping(GatewayError):
    """The gateway ends, and the request has had all the time that there was."""

    status = 503
    type = "service_unavailable_error"
    code = "gateway_stopping"


class UpstreamError(GatewayError):
    """A backend failed. Before the first byte the next candidate is tried."""

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
    """The stream is to go on at another worker, for this one will go away."""

    code = "upstream_drained"


class PrefillFailed(UpstreamError):
    """No prefill worker computed the prompt, and the worker that was to answer cannot do it. It did nothing wrong."""

    code = "prefill_failed"


class AdapterMissing(UpstreamError):
    """The worker does not have the LoRA adapter that the request is for. It did nothing wrong."""

    status = 503
    code = "adapter_not_loaded"


class UpstreamRefused(UpstreamError):
    """The backend answered, with an error status of its own (5xx, 408, 429)."""

    code = "upstream_refused"

    def __init__(self, message: str, *, status: int, retry_after_s: float | None = None) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.status = status
