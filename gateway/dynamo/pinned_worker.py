"""A worker behind a Dynamo frontend, to which its requests are pinned."""

import msgspec

from gateway.attempt import whole
from gateway.backends.backend import Call, Headers, Reply
from gateway.dynamo.frontend import instances_in
from gateway.errors import UpstreamError, UpstreamRefused
from gateway.ranks.place import Place
from gateway.ranks.placed_worker import PlacedWorker, SharedAddress
from gateway.splice import spliced

GONE = 503
"""What somebody says who is about to go; the request goes elsewhere."""
_BAD_REQUEST = 400
_UNSPECIFIC = "Invalid request"
"""All that a frontend says of a pin to a worker that it does not know (1.6.1); of other faults it says more."""
_ASK_S = 2.0


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Fault(msgspec.Struct):
    message: str


class PinnedWorker(PlacedWorker):
    """As its base. That its instance is gone is no fault of the caller's, whatever the frontend says."""

    def __init__(self, id: str, place: Place, address: SharedAddress) -> None:  # noqa: A002  # as its base
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
            raise UpstreamRefused(f"{self.id} is not behind its frontend any more", status=GONE)
        return said

    async def _is_listed(self) -> bool:
        """Whether the frontend knows its instance; it does, if it does not say."""
        call = Call(method=b"GET", path=b"/health", headers=[], body=b"", streams=False, model="")
        try:
            body = (await _read(await super().send(call, first_byte_s=_ASK_S))).body
        except UpstreamError:
            return True
        listed = instances_in(body)
        return listed is None or any(each.id == self.place.instance for each in listed)


class SaidReply:
    """An answer that has been read, for whoever reads it next; implements `Reply`."""

    def __init__(self, status: int, headers: Headers, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.ended = not body

    async def read(self) -> bytes:
        """All of it."""
        body = b"" if self.ended else self.body
        self.ended = True
        return body

    def expect_within(self, idle_s: float) -> None:
        """It is all there."""

    def interrupt(self, error: UpstreamError) -> None:
        """It is all there."""

    async def aclose(self) -> None:
        """Nothing is held."""


async def _read(reply: Reply) -> SaidReply:
    try:
        return SaidReply(reply.status, reply.headers, await whole(reply))
    finally:
        await reply.aclose()


def _salted(raw: bytes) -> bytes:
    """*raw* with its ``cache_salt`` also where Dynamo has it, unless the caller has said something there."""
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
