"""One backend asked, up to the first useful byte of its answer."""

import re
from collections.abc import Callable
from typing import Final, Never

from gateway import headers as header_rules
from gateway.backends.backend import Backend, Call, Headers, Reply
from gateway.endpoints.endpoint import JSON, Endpoint
from gateway.endpoints.faults import fault_in, reason_in
from gateway.errors import ReplyBroken, UpstreamRefused
from gateway.sse import Tail

OK: Final = 200
CLIENT_ERRORS: Final = range(400, 500)
OVERLOADED = 429
WORKERS_FAULT: Final = frozenset({401, 403, 408, OVERLOADED})
"""4xx that are not about the request: the gateway's own key was refused, the worker was slow or has too much to do."""

WHOLE_ANSWER_BYTES: Final = 64 * 2**20
"""An answer that does not stream is kept until it is complete, so that a worker that dies meanwhile is not noticed."""

RETRY_AFTER_S = 2.0
"""When to ask again if nobody is there: about the interval of health checks."""
MOST_RETRY_AFTER_S: Final = 86400.0
"""Of what a backend says: a day's quota is the longest there is."""


_aborted = re.compile(rb'"finish_reason"\s*:\s*"abort"').search
_is_seconds = re.compile(rb"[0-9]{1,9}(\.[0-9]{1,9})?").fullmatch
_is_status = re.compile(r"[0-9]{3}").fullmatch


class Attempt:
    """A backend has begun to answer."""

    __slots__ = ("first", "headers", "reply", "response_id", "status", "tail")

    def __init__(  # noqa: PLR0917  # one for each field
        self,
        reply: Reply,
        status: int,
        headers: Headers,
        first: bytes,
        tail: Tail | None,
        response_id: str | None,
    ) -> None:
        self.reply = reply
        self.status = status
        """As the caller gets it, like the headers: an engine may say 200 before it knows that it refuses."""
        self.headers = headers
        self.first = first
        """What may go downstream already: all of an answer that does not stream, else the first events. Whoever passes
        them on forgets them: announcements can be long, and so can be the stream."""
        self.tail = tail
        """Watches the stream; None if the answer does not stream."""
        self.response_id = response_id
        """Under which the worker keeps the answer, where the API knows such a thing."""


async def ask(
    backend: Backend, call: Call, endpoint: Endpoint, tail: Callable[[], Tail], *, first_byte_s: float | None = None
) -> Attempt:
    """Send *call* to *backend* and wait for its answer: for a stream until it has begun. *tail* makes its watcher.

    What came back is closed where this fails; else it is the caller's to close.

    Raises:
        UpstreamError: the backend failed, or its answer says that it did. The 4xx of a request that is wrong does not.
    """
    reply = await backend.send(call, first_byte_s=first_byte_s)
    try:
        if is_workers_fault(reply.status):
            await _raise_refusal(backend.id, reply)
        if call.streams and reply.status == OK:
            return await _begun(backend, reply, endpoint, tail())
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
    """An answer that came whole.

    Raises:
        ReplyBroken: the engine gave it up.
    """
    if (
        reply.status == OK and body.find(b'"abort"') >= 0 and _aborted(body)
    ):  # `in` raises TypeError first, and catches it
        raise _gave_up(backend)
    status, headers = reply.status, header_rules.downstream(reply.headers)
    if status not in CLIENT_ERRORS:
        return Attempt(reply, status, headers, body, None, endpoint.response_id_of(body))
    if not header_rules.is_compressed(headers):
        told = endpoint.normalised(status, body, model=model)
        if told is not body:
            body, headers = told, header_rules.of_another_body(headers, JSON)
    return Attempt(reply, status, headers, body, None, None)


async def _begun(backend: Backend, reply: Reply, endpoint: Endpoint, tail: Tail) -> Attempt:
    """A stream of which there is more than announcements: until then another worker can still be asked."""
    pieces = [tail.feed(await reply.read())]
    while not tail.begun and not reply.ended and tail.failed is None:
        pieces.append(tail.feed(await reply.read()))
    if reply.ended and not tail.inside_event:
        pieces.append(tail.finish())
    if tail.failed is not None:
        return _refused(backend, reply, endpoint, tail, tail.failed)
    if tail.aborted:
        raise _gave_up(backend)
    if not tail.begun or (reply.ended and not tail.done):
        raise ReplyBroken(f"{backend.id} ended the stream before it was complete")
    first = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    return Attempt(reply, OK, header_rules.downstream(reply.headers), first, tail, tail.response_id)


def _refused(backend: Backend, reply: Reply, endpoint: Endpoint, tail: Tail, failed: bytes) -> Attempt:
    """A stream that begins with an error, as the plain answer that it should have been.

    Raises:
        ReplyBroken: the error is the worker's.
    """
    status = refused_status(tail)
    if status is None:
        raise ReplyBroken(f"{backend.id} answered with an error event: {_reason(failed)}")
    headers = header_rules.of_another_body(header_rules.downstream(reply.headers), JSON)
    return Attempt(reply, status, headers, endpoint.errors.body(fault_in(status, failed)), None, None)


def _gave_up(backend: Backend) -> ReplyBroken:
    """As vLLM says, with 200, of all that it does not complete because it stops or falls asleep."""
    return ReplyBroken(f"{backend.id} gave the request up before it was complete")


def refused_status(tail: Tail) -> int | None:
    """The status with which an error event says that the caller is wrong; None if there is no such event.

    SGLang finds only in the stream, after its 200, that a prompt is too long, and vLLM some of what it refuses.
    """
    code = str(fault_in(OK, tail.failed).code) if tail.failed is not None else ""
    status = int(code) if _is_status(code) else 0
    return status if status in CLIENT_ERRORS and not is_workers_fault(status) else None


def is_workers_fault(status: int) -> bool:
    """Whether another worker may do better."""
    return status >= 500 or status in WORKERS_FAULT


async def whole(reply: Reply) -> bytes:
    """The body of *reply*, when it is complete.

    Raises:
        UpstreamError: as `Reply.read`, or it is larger than `WHOLE_ANSWER_BYTES`.
    """
    pieces: list[bytes] = []
    size = 0
    while not reply.ended:
        data = await reply.read()
        if not data:
            break
        pieces.append(data)
        size += len(data)
        if size > WHOLE_ANSWER_BYTES:
            raise ReplyBroken(f"The answer is larger than {WHOLE_ANSWER_BYTES} bytes")
    return b"".join(pieces) if len(pieces) != 1 else pieces[0]


async def refusal(backend_id: str, reply: Reply) -> UpstreamRefused:
    """A backend's error status as an error of ours, with what the backend said, but never with its 401 or 403.

    Those mean the gateway's own key; told on, they would send the caller looking for a fault in theirs.
    """
    status = reply.status if reply.status not in (401, 403) else 502
    body = await whole(reply)
    said = _reason(b"" if header_rules.is_compressed(reply.headers) else body)
    retry_after_s = _told_wait_s(reply.headers)
    if retry_after_s is None and status in (OVERLOADED, 503):
        retry_after_s = RETRY_AFTER_S
    return UpstreamRefused(f"{backend_id} answered {reply.status}: {said}", status=status, retry_after_s=retry_after_s)


def _told_wait_s(headers: Headers) -> float | None:
    """Seconds by ``retry-after``, as far as a caller could wait; None: it says nothing, or names a date."""
    for name, value in headers:
        if name.lower() == b"retry-after" and _is_seconds(value):
            return min(float(value), MOST_RETRY_AFTER_S)
    return None


def _reason(body: bytes) -> str:
    return reason_in(body) or "no reason given"
