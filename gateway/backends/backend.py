"""Interface between the proxy and the backends that answer requests: workers, OpenAI endpoints and Bedrock."""

from typing import Final, Protocol

from cache_index.native import mypyc_attr
from cache_index.value import Value
from gateway.protocol.errors import ReplyBroken, UpstreamError
from gateway.protocol.headers import Headers

WHOLE_ANSWER_BYTES: Final = 64 * 2**20
"""Maximum size in bytes of a response that is buffered whole, so that a worker failure before its end can be retried.
"""


@mypyc_attr(acyclic=True)
class Call(Value):
    """Request as it is sent to a backend. The body is bytes and is never parsed or serialized again."""

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
        """Path and query of a request as sent upstream, e.g. ``b"/v1/chat/completions"``."""
        self.headers: Final = headers
        """End-to-end request headers, without hop-by-hop headers, ``host``, ``content-length`` and the client's
        credentials.
        """
        self.body: Final = body
        self.streams: Final = streams
        """Whether the client asked for a stream of server-sent events."""
        self.model: Final = model
        """Model name in the client's request. A backend that builds the response itself must return this name."""
        self.guardrail: Final = guardrail
        """Id and version of the Bedrock guardrail to apply to the response, or None. Only Bedrock backends use it."""


class Reply(Protocol):
    """Response of a backend whose status and headers have arrived. The body is read as it arrives.

    The caller must always close the reply, also after a cancellation. Closing it early makes the worker stop
    generating.
    """

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Headers:
        """Return the end-to-end response headers, without hop-by-hop ones such as ``connection`` and
        ``transfer-encoding``.
        """
        ...

    @property
    def ended(self) -> bool:
        """Return True if the whole response body has been read."""
        ...

    async def read(self) -> bytes:
        """Return at least one byte of the response body, waiting for data if necessary, or ``b""`` at the end of the
        body.

        Raises:
            ReplyBroken: if the connection breaks or the body violates its framing.
            UpstreamTimeout: if the ``idle`` or ``total`` time limit passes.
        """
        ...

    def expect_within(self, idle_s: float) -> None:
        """Set the longest allowed pause between two reads to *idle_s* seconds. A longer pause raises `UpstreamTimeout`
        (``idle``).
        """
        ...

    def interrupt(self, error: UpstreamError) -> None:
        """Make the current or next read of the response raise *error*. Unread data is discarded."""
        ...

    async def aclose(self) -> None:
        """Close the response. If the body was read to the end, the connection is reused. Idempotent; never raises."""
        ...


class Backend(Protocol):
    """Service that can answer completion requests."""

    @property
    def id(self) -> str:
        """Return the id of the backend, as in ``x-warmgate-worker``: a worker's URL or configured id, or
        ``bedrock:<model id>``.
        """
        ...

    async def send(self, call: Call, *, first_byte_s: float | None = None) -> Reply:
        """Send *call* and return its reply once status and headers have arrived (for a stream, also the first byte of
        the body).

        *first_byte_s* shortens the backend's own time limit for the first byte, in seconds.

        A response with status 4xx or 5xx is returned as a reply, not raised, so that the proxy can decide how to handle
        it.

        Raises:
            ConnectFailed: if nothing was sent.
            UpstreamTimeout: if the ``connect``, ``first_byte`` or ``total`` time limit passes.
            ReplyBroken: if the connection breaks before the status and headers are complete.
        """
        ...


class WorkerBackend(Backend, Protocol):
    """Backend that is a single worker with its own address and its own connection pool."""

    @property
    def url(self) -> str: ...

    @property
    def connections_open(self) -> int:
        """Return the number of open connections to the worker, both busy and idle."""
        ...

    def addressed(self, call: Call) -> Call:
        """Return *call* as the worker receives it: with the whole path, and with all headers that `send` adds. Another
        proxy can then send it in the gateway's place.
        """
        ...

    def abandon_unanswered(self) -> None:
        """Fail calls to the worker with an `UpstreamError` if no part of their response has arrived yet."""
        ...

    def retire(self) -> None:
        """Stop the reuse of connections to the worker. Each connection is closed when its current call ends."""
        ...

    async def aclose(self) -> None:
        """Close all connections to the worker immediately. Later calls raise `ConnectFailed`."""
        ...


async def whole(reply: Reply) -> bytes:
    """Read *reply* to its end and return the whole body.

    Raises:
        UpstreamError: if reading fails (see `Reply.read`) or the body is larger than `WHOLE_ANSWER_BYTES`.
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
            raise ReplyBroken(f"The response is larger than the limit of {WHOLE_ANSWER_BYTES} bytes")
    return b"".join(pieces) if len(pieces) != 1 else pieces[0]
