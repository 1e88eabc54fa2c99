"""Answer of a worker to a request that Envoy has sent. Envoy passes it on to the gateway."""

from gateway.picker.chunks import Chunks
from gateway.protocol.errors import UpstreamError
from gateway.protocol.headers import Headers


class EnvoyReply:
    """Answer whose status and headers have arrived. Implements `gateway.backends.backend.Reply`.

    Envoy applies its own time limits to the worker. If the connection to the caller ends, the gateway cancels the
    request, and a read of the answer never returns.
    """

    def __init__(self, status: int, headers: Headers, chunks: Chunks) -> None:
        self.status = status
        self.headers = headers
        self._chunks = chunks
        self._interruption: UpstreamError | None = None

    @property
    def ended(self) -> bool:
        return self._chunks.ended and self._chunks.is_empty

    async def read(self) -> bytes:
        """Return at least one byte, or ``b""`` at the end (see `Reply.read`)."""
        data = await self._chunks.get()
        if self._interruption is not None:
            raise self._interruption
        return data

    def expect_within(self, idle_s: float) -> None:
        """Do nothing, because Envoy limits the time between two parts of an answer."""

    def interrupt(self, error: UpstreamError) -> None:
        """Make the current or next read raise *error*."""
        self._interruption = error
        self._chunks.discard()
        self._chunks.end()

    async def aclose(self) -> None:
        """Drop the rest of the answer. Envoy closes its connection to the worker."""
        self._chunks.discard()
