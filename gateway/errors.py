"""Everything that can go wrong with a request, and what to tell whom.

    GatewayError
    +-- ClientError             the caller's doing: never retried, never counts against a worker
    |   +-- MalformedBody       400, with the place
    |   +-- InvalidField        400, with the field
    |   +-- AdminRefused        401, not the admin token
    |   +-- AdminClosed         403, there is no admin token
    |   +-- UnknownModel        404 model_not_found
    |   +-- UnknownResponse     404 response_not_found
    |   +-- UnknownWorker       404 worker_not_found
    |   +-- UnknownRoute        404
    |   +-- MethodNotAllowed    405
    |   +-- BodyTooLarge        413
    |   +-- UnsupportedMedia    415
    |   +-- HeadTooLarge        431, before there is a request
    +-- TooManyConnections      503 + retry-after, before there is a request
    +-- NoWorker                503 + retry-after: nobody is there to answer
    +-- Stopping                503 + retry-after: another gateway may be there
    +-- UpstreamError           a backend's doing
        +-- ConnectFailed       502, refused or unreachable; nothing was sent
        +-- UpstreamTimeout     504, connect / first byte / idle / total
        +-- ReplyBroken         502, cut or unreadable, before or after the first byte
        +-- UpstreamRefused     the status that the backend itself answered

Three facts hang on each class: `status`, `source` (client, gateway, upstream) and `retryable`. The OpenAI error body,
the metric label, the log field and the decision to try the next candidate come from those three and nowhere else.
"""

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


class AdminRefused(ClientError):
    """The caller did not bring the admin token."""

    status = 401
    code = "invalid_admin_token"


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


class NoWorker(GatewayError):
    """No backend is there to answer. *retry_after_s* says when it is worth asking again."""

    status = 503
    type = "service_unavailable_error"
    code = "no_worker_available"


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


class UpstreamRefused(UpstreamError):
    """The backend answered, with an error status of its own (5xx, 408, 429)."""

    code = "upstream_refused"

    def __init__(self, message: str, *, status: int, retry_after_s: float | None = None) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.status = status
