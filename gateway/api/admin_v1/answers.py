"""Kept responses to requests with an `Idempotency-Key` that affect only this gateway, stored in memory."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable

from fastapi.responses import Response

from gateway.api.admin_v1.claims import HEADER, LIFETIME_S, Claim
from gateway.api.admin_v1.repetition import REPLAYED
from gateway.protocol.errors import Conflict

MAX_BYTES = 1024 * 1024
"""Maximum total size of the kept responses in bytes. The oldest responses are dropped first."""


class _Answer:
    __slots__ = ("content", "is_there", "of", "status", "until")

    def __init__(self, of: str, until: float) -> None:
        self.of = of
        self.until = until
        self.content = b""
        self.status = 200
        self.is_there = False


class Answers:
    """Responses of the last `LIFETIME_S` seconds, up to the size limit. *wall_clock* returns seconds since 1970."""

    def __init__(self, *, wall_clock: Callable[[], float], max_bytes: int = MAX_BYTES) -> None:
        self._wall_clock = wall_clock
        self._max_bytes = max_bytes
        self._kept: OrderedDict[str, _Answer] = OrderedDict()
        self._bytes = 0

    async def once(self, claim: Claim | None, act: Callable[[], Awaitable[Response]]) -> Response:
        """Return the response of the function *act*, or the earlier response if *claim* is repeated.

        A failed request may be repeated.

        Raises:
            Conflict: if the header was used for a different request, or the first request is still in progress.
        """
        if claim is None:
            return await act()
        self._forget()
        known = self._kept.get(claim.id)
        if known is not None:
            return _again(known, claim)
        answer = self._kept[claim.id] = _Answer(claim.body, self._wall_clock() + LIFETIME_S)
        try:
            response = await act()
        except BaseException:
            del self._kept[claim.id]
            raise
        answer.content, answer.status, answer.is_there = bytes(response.body), response.status_code, True
        self._bytes += _size(answer)
        return response

    def _forget(self) -> None:
        now = self._wall_clock()
        for claim_id, answer in list(self._kept.items()):  # the oldest first
            if answer.until > now and self._bytes <= self._max_bytes:
                return
            if answer.is_there:
                del self._kept[claim_id]
                self._bytes -= _size(answer)


def _again(answer: _Answer, claim: Claim) -> Response:
    if answer.of != claim.body:
        raise Conflict("This idempotency-key was used for another request within the last 24 hours", param=HEADER)
    if not answer.is_there:
        raise Conflict("The first request with this idempotency-key is still in progress", param=HEADER)
    return Response(answer.content, answer.status, media_type="application/json", headers=REPLAYED)


def _size(answer: _Answer) -> int:
    return len(answer.content) + 512  # with the digests and what holds it
