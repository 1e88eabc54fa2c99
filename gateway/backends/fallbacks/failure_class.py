"""Classes of a fallback's failures, by what to expect of the next minutes."""

import re
from typing import Literal

import msgspec

from gateway.protocol.errors import ConnectFailed, UpstreamError, UpstreamRefused, UpstreamTimeout

TOO_MANY_REQUESTS = 429

_SHUT = re.compile(
    r"answered 40[13]\b|rejected the gateway's credentials|(?:no|its) AWS credentials"
    r"|AccessDenied|UnrecognizedClient|InvalidSignature|ExpiredToken|ResourceNotFound|does not have the model"
    r"|model identifier is invalid|on-demand throughput isn.t supported|end of its life|marked by provider as Legacy",
    re.IGNORECASE,
).search
"""Wrong key or model id: every request fails until the settings change."""
_SPENT_FOR_TODAY = re.compile(r"per day|insufficient_quota|exceeded your current quota", re.IGNORECASE).search
"""Bedrock's "Too many tokens per day", and what OpenAI says where the money is gone."""
_THROTTLED = re.compile(r"Throttling|TooManyRequests|ServiceQuotaExceeded", re.IGNORECASE).search


class FailureClass(msgspec.Struct, frozen=True):
    kind: Literal["shut", "spent for today", "throttled", "failed"]
    retry_after_s: float | None = None
    """Seconds that the fallback itself named."""


def classify(error: UpstreamError) -> FailureClass:
    """Return the class of *error*, by status and message: the status is the same for quotas of a minute and a day."""
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
    """Return whether certainly no token was generated: it was not reached, or refused before its answer began."""
    if isinstance(error, UpstreamTimeout):
        return error.phase == "connect"
    return isinstance(error, ConnectFailed | UpstreamRefused)
