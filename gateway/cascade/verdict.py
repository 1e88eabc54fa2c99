"""What a fallback's failure says of the next minutes."""

import re
from typing import Literal

import msgspec

from gateway.errors import ConnectFailed, UpstreamError, UpstreamRefused, UpstreamTimeout

TOO_MANY_REQUESTS = 429

_SHUT = re.compile(
    r"answered 40[13]\b|refused the gateway's credentials|credentials could not be had|no AWS credentials"
    r"|AccessDenied|UnrecognizedClient|InvalidSignature|ExpiredToken|ResourceNotFound|does not have the model"
    r"|model identifier is invalid|on-demand throughput isn.t supported|end of its life|marked by provider as Legacy",
    re.IGNORECASE,
).search
"""The gateway's key, or the model's id, is not right: nothing changes until somebody changes it."""
_SPENT_FOR_TODAY = re.compile(r"per day|insufficient_quota|exceeded your current quota", re.IGNORECASE).search
"""Bedrock's "Too many tokens per day", and what OpenAI says where the money is gone."""
_THROTTLED = re.compile(r"Throttling|TooManyRequests|ServiceQuotaExceeded", re.IGNORECASE).search


class Verdict(msgspec.Struct, frozen=True):
    of: Literal["shut", "spent for today", "throttled", "failed"]
    retry_after_s: float | None = None
    """As the fallback itself said."""


def verdict_of(error: UpstreamError) -> Verdict:
    """By its status, and by what it says: the status alone does not tell a minute's quota from a day's."""
    said = error.message
    throttled = error.status == TOO_MANY_REQUESTS or _THROTTLED(said) is not None
    if throttled and _SPENT_FOR_TODAY(said):
        return Verdict("spent for today", error.retry_after_s)
    if throttled:
        return Verdict("throttled", error.retry_after_s)
    if _SHUT(said):
        return Verdict("shut")
    return Verdict("failed", error.retry_after_s)


def nothing_was_done(error: UpstreamError) -> bool:
    """Whether it is sure that no token was generated: it was not reached, or refused before its answer began."""
    if isinstance(error, UpstreamTimeout):
        return error.phase == "connect"
    return isinstance(error, ConnectFailed | UpstreamRefused)
