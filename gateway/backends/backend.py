"""The seam between the proxy and whatever can answer a request: a worker over HTTP, or Bedrock."""

from typing import Final, Protocol

from cache_index.value import Value
from gateway.protocol.errors import ReplyBroken, UpstreamError
from gateway.protocol.headers import Headers

WHOLE_ANSWER_BYTES: Final = 64 * 2**20
"""An answer that does not stream is kept until it is complete, so that a worker that dies meanwhile is not noticed."""


class Call(Value):
    """One request as it goes upstream. The body is bytes, which nothing on the way serializes again."""

    __match_args__ = ("method", "path", "headers", "body", "streams", "model", "guardrail")
    __slots__ = __match_args__

    def __init__(  # noqa: PLR0917  # one for each field
        self,
        method: bytes,
        path: bytes,
        headers: Headers,
        body: bytes,
        streams: bool,
        model: str,
        guardrail: tuple[str, str] | None = None,
    ) -> None:
        self.method: Final = method
        self.path: Final = path
        """Path and query as sent on the wire, e.g. ``b"/v1/chat/completions"``."""
        self.headers: Final = headers
        """End-to-end headers only: no hop-by-hop header, no ``host``, no ``content-length``, no client credential."""
        self.body: Final = body
        self.streams: Final = streams
        """The caller asked for server-sent events."""
        self.model: Final = model
        """The name under which the caller asked; a backend that builds its own answer must put it there."""
        self.guardrail: Final = guardrail
        """Id and version of a guardrail of Bedrock, for a backend there to apply to its answer."""


class Reply(Protocol):
    """A backend's answer whose status and headers have arrived; the body is read as it comes.

    The caller always closes the reply, also after a cancellation: closing before the end makes the worker stop.
    """

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Headers:
        """End-to-end headers only (no ``connection``, ``transfer-encoding``, ``keep-alive`` ...)."""
        ...

    @property
    def ended(self) -> bool:
        """All bytes of the body have been handed out."""
        ...

    async def read(self) -> bytes:
        """The bytes that have come since the last call, at least one; ``b""`` when the body is complete.

        Raises:
            ReplyBroken: the connection broke, or the body is not what its framing promised.
            UpstreamTimeout: ``idle`` or ``total``.
        """
        ...

    def expect_within(self, idle_s: float) -> None:
        """Allow a pause of *idle_s* between two pieces; a longer one raises `UpstreamTimeout` (``idle``)."""
        ...

    def interrupt(self, error: UpstreamError) -> None:
        """Make the current or else the next read raise *error*; data received before is lost."""
        ...

    async def aclose(self) -> None:
        """Return the connection (body complete) or close it (incomplete). Can be called twice; never raises."""
        ...


class Backend(Protocol):
    """Anything that can answer a completion."""

    @property
    def id(self) -> str:
        """Value of ``x-warmgate-worker``: a worker's URL or given id, or ``bedrock:<model id>``."""
        ...

    async def send(self, call: Call, *, first_byte_s: float | None = None) -> Reply:
        """Send *call* and wait for status and headers (for a stream: until the first byte of the body is there).

        *first_byte_s* is the longest wait for that, where it is shorter than the backend's own.

        A status of 4xx or 5xx is a reply, not an exception: the proxy decides what it means.

        Raises:
            ConnectFailed: nothing was sent.
            UpstreamTimeout: ``connect``, ``first_byte`` or ``total``.
            ReplyBroken: the connection broke before a complete status and headers.
        """
        ...


class WorkerBackend(Backend, Protocol):
    """A backend that is one worker: it has an address of its own, and connections that are kept and counted."""

    @property
    def url(self) -> str: ...

    @property
    def connections_open(self) -> int:
        """Busy and idle ones."""
        ...

    def abandon_unanswered(self) -> None:
        """Fail the calls that have nothing of their answer yet, with an `UpstreamError`; the others go on."""
        ...

    def retire(self) -> None:
        """Close each connection as soon as its call has ended: hardly another will come."""
        ...

    async def aclose(self) -> None:
        """Cut all connections; later calls get `ConnectFailed`."""
        ...


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
