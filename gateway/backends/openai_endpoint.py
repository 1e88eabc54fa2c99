"""Somebody else's endpoint that speaks OpenAI's API: a fallback that is a worker in all but name."""

import ssl
import time
from collections.abc import Callable

import msgspec

from gateway.backends.backend import Call, Reply
from gateway.backends.upstream.timeouts import Timeouts
from gateway.backends.worker import HttpWorker
from gateway.protocol.errors import ClientError, MalformedBody, UpstreamRefused
from gateway.protocol.splice import spliced

PATHS = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/embeddings"})
"""Paths that such endpoints serve. A response of the Responses API may continue one that only one server keeps, so it
stays with the workers; the other paths of engines are not OpenAI's."""

OURS = frozenset({"cache_salt"})
"""Fields of a body that mean something between the gateway and its workers only."""

PASSING_HEADERS = frozenset({b"accept", b"content-type", b"x-request-id", b"traceparent"})
"""Headers that are passed on. All others are for the gateway and its workers only: this is another party."""

NOT_THERE = frozenset({402, 404, 405, 410})
"""Statuses for a wrong address, model name or account of the endpoint, which no caller can repair."""

_LIMITS = ("max_tokens", "max_completion_tokens")
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_limit = msgspec.json.Decoder(int | None).decode


class OpenAIEndpoint:
    """Implements `gateway.backends.backend.Backend`. What comes back is not changed, the model's name included."""

    def __init__(
        self,
        id: str,  # noqa: A002  # the name that Backend gives it
        url: str,
        *,
        model: str,
        api_key: str | None = None,
        max_output_tokens: int | None = None,
        timeouts: Timeouts | None = None,
        ssl_context: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """*url* is the base of the API, with its ``/v1`` where it has one; *model* is the name that it knows.

        A request for more output than *max_output_tokens* is sent with these. Without *ssl_context* the system's
        certificates are trusted.

        Raises:
            ValueError: *url* or *api_key* cannot be used.
        """
        self.id = id
        self._model = msgspec.json.encode(model)
        self._max_output_tokens = max_output_tokens
        self._worker = HttpWorker(id, url, api_key=api_key, timeouts=timeouts, ssl_context=ssl_context, clock=clock)

    @property
    def connections_open(self) -> int:
        """Busy and idle ones."""
        return self._worker.connections_open

    async def send(self, call: Call, *, first_byte_s: float | None = None) -> Reply:
        """Send *call*, see `Backend.send`.

        Raises:
            ClientError: the endpoint has no such path; nothing was sent.
            UpstreamRefused: it does not know the model, or the path.
        """
        path, _, _ = call.path.partition(b"?")
        if path.decode("latin-1") not in PATHS:
            raise ClientError(f"the fallback {self.id} does not serve this endpoint")
        reply = await self._worker.send(
            call.changed(
                path=call.path.removeprefix(b"/v1"),
                headers=[header for header in call.headers if header[0] in PASSING_HEADERS],
                body=self._body(call.body),
            ),
            first_byte_s=first_byte_s,
        )
        if reply.status in NOT_THERE:
            await reply.aclose()
            raise UpstreamRefused(f"{self.id} answered {reply.status}: it does not have the model", status=502)
        return reply

    def retire(self) -> None:
        """Close each connection as soon as its call has ended: no other will come."""
        self._worker.retire()

    async def aclose(self) -> None:
        """Cut all connections; later calls get `ConnectFailed`."""
        await self._worker.aclose()

    def _body(self, raw: bytes) -> bytes:
        """*raw* as the endpoint gets it; values that are not changed keep their bytes."""
        try:
            fields = _fields(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            # Not chained: the cause may carry the whole body.
            raise MalformedBody("The body is not a JSON object") from None
        changes = {"model": self._model}
        most = self._max_output_tokens
        if most is not None:
            changes |= {name: b"%d" % most for name in _LIMITS if name in fields and _exceeds(fields[name], most)}
        if fields.keys() & OURS:
            raw = msgspec.json.encode({name: value for name, value in fields.items() if name not in OURS})
        return spliced(raw, changes)


def _exceeds(value: msgspec.Raw, most: int) -> bool:
    try:
        asked = _limit(value)
    except msgspec.DecodeError:
        return False  # the endpoint may say what is wrong with it
    return asked is not None and asked > most
