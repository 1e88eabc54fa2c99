"""Backend for a worker behind a Dynamo frontend. Its requests are pinned to this worker."""

import msgspec

from gateway.backends.backend import Call, Reply, whole
from gateway.protocol.errors import UpstreamError, UpstreamRefused
from gateway.protocol.headers import Headers
from gateway.protocol.splice import spliced, without
from gateway.workers.dynamo.frontend import instances_in
from gateway.workers.shared_address.placed_worker import PlacedWorker, SharedAddress
from gateway.workers.worker_place import WorkerPlace

GONE = 503
"""HTTP status for a worker that is shutting down. The request is retried on another worker."""
CACHE_HINTS = frozenset({"prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"})
"""Fields of OpenAI's API about prompt caching. Frontends ignore or reject fields that they do not know."""
_BAD_REQUEST = 400
_UNSPECIFIC = "Invalid request"
"""Complete error message of a Dynamo frontend (1.6.1) for an unknown worker. Messages of other errors are longer."""
_ASK_S = 2.0


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Fault(msgspec.Struct):
    message: str


class PinnedWorker(PlacedWorker):
    """Backend for a worker behind a Dynamo frontend. A missing instance is a worker failure, not an invalid request."""

    def __init__(self, id: str, place: WorkerPlace, address: SharedAddress) -> None:  # noqa: A002  # as its base
        super().__init__(id, place, address)

    async def send(self, call: Call, *, first_byte_s: float | None = None) -> Reply:
        """See `Backend.send`.

        Raises:
            UpstreamRefused: if the frontend no longer lists this worker.
        """
        if b'"cache_salt"' in call.body:
            call = call.changed(body=_salted(call.body))
        if b'"prompt_cache_' in call.body:
            call = call.changed(body=without(call.body, CACHE_HINTS))
        reply = await super().send(call, first_byte_s=first_byte_s)
        if reply.status != _BAD_REQUEST:
            return reply
        said = await _read(reply)
        if _message_in(said.body) == _UNSPECIFIC and not await self._is_listed():
            raise UpstreamRefused(f"worker {self.id} is no longer listed by its frontend", status=GONE)
        return said

    async def _is_listed(self) -> bool:
        """Return whether the frontend still lists the worker. If the frontend does not answer, return True."""
        call = Call(method=b"GET", path=b"/health", headers=[], body=b"", streams=False, model="")
        try:
            body = (await _read(await super().send(call, first_byte_s=_ASK_S))).body
        except UpstreamError:
            return True
        listed = instances_in(body)
        return listed is None or any(each.id == self.place.instance for each in listed)


class SaidReply:
    """Response whose body has already been read. Implements `Reply`."""

    def __init__(self, status: int, headers: Headers, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.ended = not body

    async def read(self) -> bytes:
        """Return the whole body. If the body was returned before, return an empty one."""
        body = b"" if self.ended else self.body
        self.ended = True
        return body

    def expect_within(self, idle_s: float) -> None:
        """Do nothing, because the body is already complete."""

    def interrupt(self, error: UpstreamError) -> None:
        """Do nothing, because the complete body cannot be interrupted."""

    async def aclose(self) -> None:
        """Do nothing, because the connection is already released."""


async def _read(reply: Reply) -> SaidReply:
    try:
        return SaidReply(reply.status, reply.headers, await whole(reply))
    finally:
        await reply.aclose()


def _salted(raw: bytes) -> bytes:
    """Return the request body with a copy of its ``cache_salt`` in ``nvext``, unless ``nvext`` already has a salt."""
    try:
        fields = _fields(raw)
        salt, extension = fields.get("cache_salt"), fields.get("nvext")
        if salt is None:
            return raw
        said = {} if extension is None or bytes(extension) == b"null" else _fields(extension)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return raw  # the frontend may say what is wrong with it
    return spliced(raw, {"nvext": msgspec.json.encode({"cache_salt": salt, **said})})


def _message_in(body: bytes) -> str | None:
    try:
        return msgspec.json.decode(body, type=_Fault).message
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
