"""Short descriptions of Redis failures, taken from a fixed set of texts.

Error texts of Redis are never copied, because they may contain addresses, passwords or command arguments.
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

_UNAVAILABLE: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
    ((AuthenticationError, AuthorizationError), "wrong user or password"),
    (BusyLoadingError, "the server is still loading its data"),
)
_REFUSALS: tuple[tuple[type[ResponseError], str], ...] = (
    (ReadOnlyError, "the server is a read-only replica"),
    (OutOfMemoryError, "the server is out of memory"),
    (NoPermissionError, "the user in store.url has no permission"),
)
_CODES = {"MISCONF": "the server cannot write to its disk"}


def reason_of(fault: BaseException, timeout_s: float) -> str:
    """Return the reason why Redis did not reply, as the end of a sentence. *timeout_s* is the query timeout."""
    if isinstance(fault, (TimeoutError, RedisTimeout)):
        return f"no answer within {timeout_s:g} s (store.timeout_s)"
    for kind, words in _UNAVAILABLE:
        if isinstance(fault, kind):
            return words
    causes = list(_chain(fault))
    return next(filter(None, map(_system_reason, causes)), None) or _text_reason(fault) or type(fault).__name__


def refusal_of(fault: ResponseError) -> str:
    """Return the reason why Redis rejected a command, as the end of a sentence. *fault* is the error reply."""
    for kind, words in _REFUSALS:
        if isinstance(fault, kind):
            return words
    code = str(fault).partition(" ")[0][:40]
    return _CODES.get(code, f"{type(fault).__name__} {code}")


def _system_reason(fault: BaseException) -> str | None:
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"the server's certificate is not accepted, {fault.verify_message}"
    if isinstance(fault, ssl.SSLError):
        return "the TLS handshake failed"
    if isinstance(fault, socket.gaierror):
        return "the host name cannot be resolved"
    if isinstance(fault, OSError) and fault.errno is not None and fault.errno in errno.errorcode:
        return os.strerror(fault.errno).lower()
    return None


def _text_reason(fault: BaseException) -> str | None:
    return "the server closed the connection" if "closed" in str(fault).lower() else None


def _chain(fault: BaseException) -> Iterator[BaseException]:
    """Yield *fault* and then the exceptions that caused it, outermost first."""
    each: BaseException | None = fault
    while each is not None:
        yield each
        each = each.__cause__ or each.__context__
