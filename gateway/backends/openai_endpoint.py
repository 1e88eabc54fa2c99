"""Fallback backend for an external endpoint that implements OpenAI's API."""

import ssl
import time
from collections.abc import Callable
from typing import Any

import msgspec

from gateway.backends.backend import Call, Reply
from gateway.backends.upstream.timeouts import Timeouts
from gateway.backends.worker import HttpWorker
from gateway.protocol.errors import ClientError, MalformedBody, UpstreamRefused
from gateway.protocol.splice import spliced

PATHS = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/embeddings"})
"""Paths that external endpoints serve. The Responses API is excluded, because its conversations are stored on one
server. Other engine-specific paths are not part of OpenAI's API.
"""

OURS = frozenset({"cache_salt", "session_id"})
"""Request fields for the gateway and its workers only, which are removed from requests to external endpoints."""

PASSING_HEADERS = frozenset({b"accept", b"content-type", b"x-request-id", b"traceparent"})
"""Request headers that are passed on to external endpoints. All others are removed, because another party runs the
endpoint.
"""

NOT_THERE = frozenset({402, 404, 405, 410})
"""Response statuses that indicate a wrong address, model name or account, which only the operator can correct."""

_LIMITS = ("max_tokens", "max_completion_tokens")
_MARK = "cache_control"
"""Key of Anthropic's API that marks the end of a reusable prefix. OpenAI's API rejects it, and has other marks."""

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_limit = msgspec.json.Decoder(int | None).decode
_decode_list = msgspec.json.Decoder(list[Any], float_hook=msgspec.Raw).decode


class OpenAIEndpoint:
    """External endpoint with OpenAI's API. Responses are passed on unchanged. Implements
    `gateway.backends.backend.Backend`.
    """

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
        """Create a backend for the API at *url*, including ``/v1`` if the API uses it. *model* is the endpoint's name
        for the model.

        Output limits above *max_output_tokens* are lowered to it. If *ssl_context* is None, the system's certificate
        authorities are trusted.

        Raises:
            ValueError: if *url* or *api_key* is invalid.
        """
        self.id = id
        self._model = msgspec.json.encode(model)
        self._max_output_tokens = max_output_tokens
        self._worker = HttpWorker(id, url, api_key=api_key, timeouts=timeouts, ssl_context=ssl_context, clock=clock)

    @property
    def connections_open(self) -> int:
        """Return the number of open connections to the endpoint, both busy and idle."""
        return self._worker.connections_open

    async def send(self, call: Call, *, first_byte_s: float | None = None) -> Reply:
        """Send *call* to the endpoint (see `Backend.send`).

        Raises:
            ClientError: if the endpoint does not serve the call's path. Nothing has been sent then.
            UpstreamRefused: if the endpoint does not know the model or the path.
        """
        path, _, _ = call.path.partition(b"?")
        if path.decode("latin-1") not in PATHS:
            raise ClientError(f"The fallback {self.id} does not serve this endpoint")
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
            raise UpstreamRefused(f"{self.id} returned status {reply.status}: it does not have the model", status=502)
        return reply

    def retire(self) -> None:
        """Close idle connections now, and each busy connection as soon as its call ends."""
        self._worker.retire()

    async def aclose(self) -> None:
        """Close all connections to the endpoint immediately. Later calls raise `ConnectFailed`."""
        await self._worker.aclose()

    def _body(self, raw: bytes) -> bytes:
        """Return the request body for the endpoint. Unchanged values keep their original bytes."""
        try:
            fields = _fields(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            # Not chained: the cause may carry the whole body.
            raise MalformedBody("The request body is not a JSON object") from None
        changes = {"model": self._model}
        most = self._max_output_tokens
        if most is not None:
            changes |= {name: b"%d" % most for name in _LIMITS if name in fields and _exceeds(fields[name], most)}
        if b'"cache_control"' in raw:
            changes |= {name: _without_marks(fields[name]) for name in ("messages", "tools") if name in fields}
        if fields.keys() & OURS:
            raw = msgspec.json.encode({name: value for name, value in fields.items() if name not in OURS})
        return spliced(raw, changes)


def _without_marks(value: msgspec.Raw) -> bytes:
    """Return *value*, the JSON list of messages or tools, without `_MARK`. Schemas of tools stay unchanged."""
    try:
        return msgspec.json.encode([_unmarked(each, "content", "function") for each in _decode_list(value)])
    except msgspec.DecodeError:
        return bytes(value)  # the endpoint may say what is wrong with it


def _unmarked(value: Any, *inner: str) -> Any:
    """Return *value* without `_MARK`, also in the objects and lists of objects under the keys *inner*."""
    if isinstance(value, list):
        return [_unmarked(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _unmarked(each) if key in inner else each for key, each in value.items() if key != _MARK}


def _exceeds(value: msgspec.Raw, most: int) -> bool:
    try:
        asked = _limit(value)
    except msgspec.DecodeError:
        return False  # the endpoint may say what is wrong with it
    return asked is not None and asked > most
