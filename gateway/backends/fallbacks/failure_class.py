"""Classification of fallback failures by how long they probably last."""

import re
from typing import Literal

import msgspec

from gateway.protocol.errors import ConnectFailed, UpstreamError, UpstreamRefused, UpstreamTimeout

TOO_MANY_REQUESTS = 429

_SHUT = re.compile(
    r"(?:answered|returned status) 40[13]\b|rejected the gateway's credentials|(?:no|its) AWS credentials"
    r"|AccessDenied|UnrecognizedClient|InvalidSignature|ExpiredToken|ResourceNotFound|does not have the model"
    r"|model identifier is invalid|on-demand throughput isn.t supported|end of its life|marked by provider as Legacy",
    re.IGNORECASE,
).search
"""Search for messages about a wrong API key or model id. Every request fails with them until the settings change."""
_SPENT_FOR_TODAY = re.compile(r"per day|insufficient_quota|exceeded your current quota", re.IGNORECASE).search
"""Search for messages about an exhausted daily quota (Bedrock) or account balance (OpenAI)."""
_THROTTLED = re.compile(r"Throttling|TooManyRequests|ServiceQuotaExceeded", re.IGNORECASE).search


class FailureClass(msgspec.Struct, frozen=True):
    kind: Literal["shut", "spent for today", "throttled", "failed"]
    retry_after_s: float | None = None
    """Retry delay in seconds that the fallback requested, or None."""


def classify(error: UpstreamError) -> FailureClass:
    """Return the failure class of *error*. The error message matters, because per-minute and daily quotas have the same
    status.
    """
    said = error.message
    throttled = error.status == TOO_MANY_REQUESTS or _THROTTLED(said) is not None
    if throttled and _SPENT_FOR_TODAY(said):
        return FailureClass("spent for today", error.retry_after_s)
    if throttled:
        return FailureClass("throttled", error.retry_after_s)
    if _SHUT(said):
        return FailureClass("shut")
    return FailureClass("failed", error.retry_after_s)


def nothing_was_done(error: UpstreamError) -> bool:
    """Return whether *error* proves that no token was generated, because the request was never sent or was rejected."""
    if isinstance(error, UpstreamTimeout):
        return error.phase == "connect"
    return isinstance(error, ConnectFailed | UpstreamRefused)
