"""Reasons why Redis does not do what it is asked, in words of a closed set.

The texts of its errors are not passed on: they may hold addresses, passwords, or what was asked.
"""

import errno
import os
import socket
import ssl
from collections.abc import Iterator

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)
from redis.exceptions import TimeoutError as RedisTimeout

_AWAY: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
    ((AuthenticationError, AuthorizationError), "wrong user or password"),
    (BusyLoadingError, "it still loads its data"),
)
_REFUSALS: tuple[tuple[type[ResponseError], str], ...] = (
    (ReadOnlyError, "it is a read-only replica"),
    (OutOfMemoryError, "its memory is full"),
    (NoPermissionError, "its user may not run this command"),
)
_CODES = {"MISCONF": "it cannot write to its disk"}


def reason_of(fault: BaseException, timeout_s: float) -> str:
    """Return why no answer came within *timeout_s*."""
    if isinstance(fault, (TimeoutError, RedisTimeout)):
        return f"no answer within {timeout_s:g} s (store.timeout_s)"
    for kind, words in _AWAY:
        if isinstance(fault, kind):
            return words
    causes = list(_chain(fault))
    return next(filter(None, map(_of_system, causes)), None) or _of_text(fault) or type(fault).__name__


def refusal_of(fault: ResponseError) -> str:
    """Return why it answered with the error *fault*."""
    for kind, words in _REFUSALS:
        if isinstance(fault, kind):
            return words
    code = str(fault).partition(" ")[0][:40]
    return _CODES.get(code, f"{type(fault).__name__} {code}")


def _of_system(fault: BaseException) -> str | None:
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted, {fault.verify_message}"
    if isinstance(fault, ssl.SSLError):
        return "TLS failed"
    if isinstance(fault, socket.gaierror):
        return "its host name cannot be resolved"
    if isinstance(fault, OSError) and fault.errno is not None and fault.errno in errno.errorcode:
        return os.strerror(fault.errno).lower()
    return None


def _of_text(fault: BaseException) -> str | None:
    return "it closed the connection" if "closed" in str(fault).lower() else None


def _chain(fault: BaseException) -> Iterator[BaseException]:
    """*fault*, and what led to it."""
    each: BaseException | None = fault
    while each is not None:
        yield each
        each = each.__cause__ or each.__context__
