"""A worker behind a Dynamo frontend, to which its requests are pinned."""

import msgspec

from gateway.backends.backend import Call, Reply, whole
from gateway.protocol.errors import UpstreamError, UpstreamRefused
from gateway.protocol.headers import Headers
from gateway.protocol.splice import spliced
from gateway.workers.dynamo.frontend import instances_in
from gateway.workers.shared_address.placed_worker import PlacedWorker, SharedAddress
from gateway.workers.worker_place import WorkerPlace

GONE = 503
"""Status of a worker that is about to stop; the request goes to another one."""
_BAD_REQUEST = 400
_UNSPECIFIC = "Invalid request"
"""The frontend's whole text about a pin to an unknown worker (1.6.1); other faults have longer ones."""
_ASK_S = 2.0


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Fault(msgspec.Struct):
    message: str


class PinnedWorker(PlacedWorker):
    """A placed worker behind a frontend. If its instance is gone, the request is not at fault, whatever the frontend
    says.
    """

    def __init__(self, id: str, place: WorkerPlace, address: SharedAddress) -> None:  # noqa: A002  # as its base
        super().__init__(id, place, address)

    async def send(self, call: Call, *, first_byte_s: float | None = None) -> Reply:
        """See `Backend.send`.

        Raises:
            UpstreamRefused: the frontend knows this worker no more.
        """
        if b'"cache_salt"' in call.body:
            call = call.changed(body=_salted(call.body))
        reply = await super().send(call, first_byte_s=first_byte_s)
        if reply.status != _BAD_REQUEST:
            return reply
        said = await _read(reply)
        if _message_in(said.body) == _UNSPECIFIC and not await self._is_listed():
            raise UpstreamRefused(f"{self.id} is no longer behind its frontend", status=GONE)
        return said

    async def _is_listed(self) -> bool:
        """Whether the frontend knows its instance; assumed if it does not say."""
        call = Call(method=b"GET", path=b"/health", headers=[], body=b"", streams=False, model="")
        try:
            body = (await _read(await super().send(call, first_byte_s=_ASK_S))).body
        except UpstreamError:
            return True
        listed = instances_in(body)
        return listed is None or any(each.id == self.place.instance for each in listed)


class SaidReply:
    """An answer that has been read, kept for the next reader; implements `Reply`."""

    def __init__(self, status: int, headers: Headers, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.ended = not body

    async def read(self) -> bytes:
        """Return the whole body."""
        body = b"" if self.ended else self.body
        self.ended = True
        return body

    def expect_within(self, idle_s: float) -> None:
        """Do nothing: the body is complete."""

    def interrupt(self, error: UpstreamError) -> None:
        """Do nothing: the body is complete."""

    async def aclose(self) -> None:
        """Do nothing: no connection is held."""


async def _read(reply: Reply) -> SaidReply:
    try:
        return SaidReply(reply.status, reply.headers, await whole(reply))
    finally:
        await reply.aclose()


def _salted(raw: bytes) -> bytes:
    """Return *raw* with its ``cache_salt`` also in Dynamo's field, unless the caller has set that."""
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
