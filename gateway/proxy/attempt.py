"""Send a request to one backend, and wait for the first useful byte of the answer."""

import re
from collections.abc import Callable
from typing import Final, Never

from gateway.backends.backend import Backend, Call, Reply, whole
from gateway.protocol import headers as header_rules
from gateway.protocol.endpoints.endpoint import JSON, Endpoint
from gateway.protocol.endpoints.faults import fault_in, reason_in
from gateway.protocol.errors import ReplyBroken, UpstreamRefused
from gateway.protocol.headers import Headers
from gateway.protocol.sse import StreamObserver

OK: Final = 200
CLIENT_ERRORS: Final = range(400, 500)
OVERLOADED = 429
WORKERS_FAULT: Final = frozenset({401, 403, 408, OVERLOADED})
"""HTTP status codes 4xx that are not the caller's fault: the worker rejected the gateway's key, or was slow or
overloaded.
"""

RETRY_AFTER_S = 2.0
"""Seconds in the `retry-after` header for an unavailable backend, about the interval of worker health checks."""
MAX_RETRY_AFTER_S: Final = 86400.0
"""Longest `retry-after` in seconds to accept from a backend. No quota lasts longer than a day."""


_aborted = re.compile(rb'"finish_reason"\s*:\s*"abort"').search
_is_seconds = re.compile(rb"[0-9]{1,9}(\.[0-9]{1,9})?").fullmatch
_is_status = re.compile(r"[0-9]{3}").fullmatch


class Attempt:
    """Answer that a backend has begun to send."""

    __slots__ = ("first", "headers", "observer", "reply", "response_id", "status")

    def __init__(  # noqa: PLR0917  # one for each field
        self,
        reply: Reply,
        status: int,
        headers: Headers,
        first: bytes,
        observer: StreamObserver | None,
        response_id: str | None,
    ) -> None:
        self.reply = reply
        self.status = status
        """HTTP status for the caller. The engine's own status can be 200 although an error follows in the stream."""
        self.headers = headers
        self.first = first
        """First events of a stream, or the whole body of an answer that is not streamed. They are dropped after they
        have been sent.
        """
        self.observer = observer
        """Observer of the streamed answer, or None if the answer is not streamed."""
        self.response_id = response_id
        """Id under which the worker stores the answer, or None if the API has no such ids."""


async def ask(
    backend: Backend,
    call: Call,
    endpoint: Endpoint,
    observer: Callable[[], StreamObserver],
    *,
    first_byte_s: float | None = None,
) -> Attempt:
    """Send *call* to *backend*, and return either the whole answer or the beginning of the stream.

    The function *observer* creates the stream observer. If this function raises, it closes the reply, and otherwise its
    caller must close it.

    Raises:
        UpstreamError: if the backend fails or reports a failure. A 4xx status that is the caller's fault is not a
            failure.
    """
    reply = await backend.send(call, first_byte_s=first_byte_s)
    try:
        if is_workers_fault(reply.status):
            await _raise_refusal(backend.id, reply)
        if call.streams and reply.status == OK:
            return await _begun(backend, reply, endpoint, observer())
        return _answer(backend, reply, await whole(reply), endpoint, call.model)
    except BaseException as error:  # noqa: BLE001  # raised again below
        failure = error
    try:
        await reply.aclose()
        raise failure
    finally:
        del failure  # its traceback holds this frame


async def _raise_refusal(backend_id: str, reply: Reply) -> Never:
    raise await refusal(backend_id, reply)


def _answer(backend: Backend, reply: Reply, body: bytes, endpoint: Endpoint, model: str) -> Attempt:
    """Return the backend's answer to a request without streaming.

    Raises:
        ReplyBroken: if the engine aborted the request.
    """
    if (
        reply.status == OK and body.find(b'"abort"') >= 0 and _aborted(body)
    ):  # compiled, `in` raises and catches a TypeError first
        raise _gave_up(backend)
    status, headers = reply.status, header_rules.downstream(reply.headers)
    if status not in CLIENT_ERRORS:
        return Attempt(reply, status, headers, body, None, endpoint.response_id_of(body))
    if not header_rules.is_compressed(headers):
        normalized = endpoint.normalized(status, body, model=model)
        if normalized is not body:
            body, headers = normalized, header_rules.of_another_body(headers, JSON)
    return Attempt(reply, status, headers, body, None, None)


async def _begun(backend: Backend, reply: Reply, endpoint: Endpoint, observer: StreamObserver) -> Attempt:
    """Read a stream up to the first useful event. Until then, the request can still be sent to another worker."""
    pieces = [observer.feed(await reply.read())]
    while not observer.begun and not reply.ended and observer.failed is None:
        pieces.append(observer.feed(await reply.read()))
    if reply.ended and not observer.inside_event:
        pieces.append(observer.finish())
    if observer.failed is not None:
        return _refused(backend, reply, endpoint, observer, observer.failed)
    if observer.aborted:
        raise _gave_up(backend)
    if not observer.begun or (reply.ended and not observer.done):
        raise ReplyBroken(f"{backend.id} ended the stream before it was complete")
    first = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    return Attempt(reply, OK, header_rules.downstream(reply.headers), first, observer, observer.response_id)


def _refused(backend: Backend, reply: Reply, endpoint: Endpoint, observer: StreamObserver, failed: bytes) -> Attempt:
    """Return an error response in place of a stream that begins with an error event.

    Raises:
        ReplyBroken: if the error is not the caller's fault.
    """
    status = refused_status(observer)
    if status is None:
        raise ReplyBroken(f"{backend.id} sent an error event: {_reason(failed)}")
    headers = header_rules.of_another_body(header_rules.downstream(reply.headers), JSON)
    return Attempt(reply, status, headers, endpoint.errors.body(fault_in(status, failed)), None, None)


def _gave_up(backend: Backend) -> ReplyBroken:
    """Return the error for a request that the engine aborted, as vLLM does with status 200 when it stops."""
    return ReplyBroken(f"{backend.id} aborted the request before it was complete")


def refused_status(observer: StreamObserver) -> int | None:
    """Return the 4xx status in the stream's error event if the error is the caller's fault, or None otherwise.

    SGLang reports a prompt that is too long in the stream, after status 200. vLLM reports some errors in the stream
    too.
    """
    code = str(fault_in(OK, observer.failed).code) if observer.failed is not None else ""
    status = int(code) if _is_status(code) else 0
    return status if status in CLIENT_ERRORS and not is_workers_fault(status) else None


def is_workers_fault(status: int) -> bool:
    """Return whether *status* means a failure of the worker, so that another worker can get the request."""
    return status >= 500 or status in WORKERS_FAULT


async def refusal(backend_id: str, reply: Reply) -> UpstreamRefused:
    """Return the error for a backend's error response, with the reason that the backend gave.

    Status 401 or 403 from a backend becomes 502, because it concerns the gateway's key and not the caller's key.
    """
    status = reply.status if reply.status not in (401, 403) else 502
    body = await whole(reply)
    said = _reason(b"" if header_rules.is_compressed(reply.headers) else body)
    retry_after_s = _retry_after_s(reply.headers)
    if retry_after_s is None and status in (OVERLOADED, 503):
        retry_after_s = RETRY_AFTER_S
    return UpstreamRefused(f"{backend_id} answered {reply.status}: {said}", status=status, retry_after_s=retry_after_s)


def _retry_after_s(headers: Headers) -> float | None:
    """Return the seconds in the `retry-after` header, limited to one day, or None if the header is missing or is a
    date.
    """
    for name, value in headers:
        if name.lower() == b"retry-after" and _is_seconds(value):
            return min(float(value), MAX_RETRY_AFTER_S)
    return None


def _reason(body: bytes) -> str:
    return reason_in(body) or "no reason given"
