"""One backend asked, up to the first useful byte of its answer."""

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
"""4xx statuses that do not blame the caller: the gateway's key was refused, or the worker was slow or overloaded."""

RETRY_AFTER_S = 2.0
"""Retry-after of an unavailable backend: about the interval of health checks."""
MAX_RETRY_AFTER_S: Final = 86400.0
"""Longest retry-after accepted from a backend: no quota lasts longer than a day."""


_aborted = re.compile(rb'"finish_reason"\s*:\s*"abort"').search
_is_seconds = re.compile(rb"[0-9]{1,9}(\.[0-9]{1,9})?").fullmatch
_is_status = re.compile(r"[0-9]{3}").fullmatch


class Attempt:
    """An answer that a backend has begun."""

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
        """Status for the caller. An engine may send 200 before it refuses the request in the stream."""
        self.headers = headers
        self.first = first
        """Whole answer that does not stream, or the first events. The relay drops them once they are passed on."""
        self.observer = observer
        """Observer of the stream; None if the answer does not stream."""
        self.response_id = response_id
        """Id under which the worker stores the answer, if the API has such ids."""


async def ask(
    backend: Backend,
    call: Call,
    endpoint: Endpoint,
    observer: Callable[[], StreamObserver],
    *,
    first_byte_s: float | None = None,
) -> Attempt:
    """Send *call* to *backend* and return its answer, or its stream once that has begun. *observer* makes the observer.

    The reply is closed if this fails; otherwise the caller of this function closes it.

    Raises:
        UpstreamError: the backend failed, or reports a failure. A 4xx that blames the caller is not a failure.
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
    """Return an answer that does not stream.

    Raises:
        ReplyBroken: the engine aborted it.
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
    """Read a stream past its announcements: until then another worker can still be asked."""
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
    """Return a stream that begins with an error as an error response.

    Raises:
        ReplyBroken: the error does not blame the caller.
    """
    status = refused_status(observer)
    if status is None:
        raise ReplyBroken(f"{backend.id} answered with an error event: {_reason(failed)}")
    headers = header_rules.of_another_body(header_rules.downstream(reply.headers), JSON)
    return Attempt(reply, status, headers, endpoint.errors.body(fault_in(status, failed)), None, None)


def _gave_up(backend: Backend) -> ReplyBroken:
    """Return the error for a request that an engine aborted, as vLLM does with status 200 when it stops or sleeps."""
    return ReplyBroken(f"{backend.id} aborted the request before it was complete")


def refused_status(observer: StreamObserver) -> int | None:
    """Return the 4xx in an error event that blames the caller; None if there is no such event.

    SGLang reports a prompt that is too long in the stream, after its 200; vLLM reports some refusals there.
    """
    code = str(fault_in(OK, observer.failed).code) if observer.failed is not None else ""
    status = int(code) if _is_status(code) else 0
    return status if status in CLIENT_ERRORS and not is_workers_fault(status) else None


def is_workers_fault(status: int) -> bool:
    """Return whether another worker may answer the same request."""
    return status >= 500 or status in WORKERS_FAULT


async def refusal(backend_id: str, reply: Reply) -> UpstreamRefused:
    """Return the error for a backend's error status, with the backend's reason.

    401 and 403 become 502: they are about the gateway's key, not about the caller's.
    """
    status = reply.status if reply.status not in (401, 403) else 502
    body = await whole(reply)
    said = _reason(b"" if header_rules.is_compressed(reply.headers) else body)
    retry_after_s = _retry_after_s(reply.headers)
    if retry_after_s is None and status in (OVERLOADED, 503):
        retry_after_s = RETRY_AFTER_S
    return UpstreamRefused(f"{backend_id} answered {reply.status}: {said}", status=status, retry_after_s=retry_after_s)


def _retry_after_s(headers: Headers) -> float | None:
    """Return the seconds in ``retry-after``, bounded; None if the header is missing or is a date."""
    for name, value in headers:
        if name.lower() == b"retry-after" and _is_seconds(value):
            return min(float(value), MAX_RETRY_AFTER_S)
    return None


def _reason(body: bytes) -> str:
    return reason_in(body) or "no reason given"
