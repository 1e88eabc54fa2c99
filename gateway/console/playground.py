"""Send a completion through the gateway, and stream the answer into a page, without JavaScript.

The request passes the same checks as any other request: the API key that the person typed, its limits and its budget.
Neither the key nor the texts are kept.
"""

from collections.abc import Iterator
from html import escape
from typing import Any, Final

import msgspec
from starlette.responses import Response

from gateway.console.answers import HEADERS, NOT_KEPT
from gateway.server.asgi import App, Message, Receive, Send

CHAT: Final = "/v1/chat/completions"
HEADERS_MARKER: Final = "warmgate-the-headers-are-here"
MARKER: Final = "warmgate-the-answer-is-here"
"""Texts in the HTML of the page at which the response headers and, after them, the answer appear."""
MAX_PLAIN_BYTES: Final = 1_000_000
"""Maximum number of bytes of an answer that is not a stream of events. The rest is not shown."""
_SHOWN: Final = (b"x-warmgate", b"x-request-id", b"x-ratelimit", b"retry-after")
"""Beginnings of the names of response headers that the page shows."""
_DROPPED: Final = frozenset(
    {b"cookie", b"authorization", b"x-api-key", b"content-type", b"content-length", b"transfer-encoding"}
    | {b"accept", b"accept-encoding", b"connection"}
)
"""Headers of the browser that the completion does not get. Others show, for example, that a proxy is in between."""


class AnswerReader:
    """Reader of an answer, which returns its text as it arrives. It understands event streams and plain JSON."""

    def __init__(self) -> None:
        self.is_stream = False
        self.usage: Any = None
        self._rest = b""

    def feed(self, data: bytes) -> str:
        """Return the text that *data* completes."""
        if not self.is_stream:
            self._rest = (self._rest + data)[:MAX_PLAIN_BYTES]
            return ""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return "".join(text for line in lines for text in self._texts(line))

    def end(self) -> str:
        """Return the text that is left at the end of the answer."""
        rest, self._rest = self._rest, b""
        if self.is_stream:
            return "".join(self._texts(rest))
        return "".join(self._texts_of(rest)) or rest.decode("utf-8", "replace")

    def _texts(self, line: bytes) -> Iterator[str]:
        if line.startswith(b"data:") and b"[DONE]" not in line:
            yield from self._texts_of(line[5:])

    def _texts_of(self, raw: bytes) -> Iterator[str]:
        try:
            event = msgspec.json.decode(raw, type=dict[str, Any])
        except msgspec.MsgspecError:
            return
        self.usage = event.get("usage") or self.usage
        error = event.get("error")
        if isinstance(error, dict):
            yield str(error.get("message"))
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            part = choice.get("delta") or choice.get("message") or {}
            for name in ("reasoning_content", "content"):
                if isinstance(part.get(name), str):
                    yield part[name]


class Played(Response):
    """Page with the answer to a completion that is sent while the page is sent. *html* contains both markers."""

    def __init__(self, app: App, html: str, *, body: bytes, key: str) -> None:
        super().__init__()
        self._app = app
        self._before, _, rest = html.partition(HEADERS_MARKER)
        self._between, _, self._after = rest.partition(MARKER)
        self._request = body
        self._key = key

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Send the page up to the headers, the headers, the answer as it arrives, and then the rest of the page."""
        reader = AnswerReader()
        started = {**HEADERS, **NOT_KEPT, "content-type": "text/html; charset=utf-8", "x-accel-buffering": "no"}
        headers = [(name.encode(), value.encode()) for name, value in started.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send(_piece(self._before))
        pending = [self._request]

        async def receive_body() -> Message:
            if pending:
                return {"type": "http.request", "body": pending.pop(), "more_body": False}
            return await receive()

        async def show(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = dict(message["headers"])
                reader.is_stream = sent.get(b"content-type", b"").startswith(b"text/event-stream")
                await send(_piece(_headers(message["status"], message["headers"]) + self._between))
            elif message["type"] == "http.response.body":
                text = reader.feed(message.get("body", b""))
                if text:
                    await send(_piece(escape(text)))

        await self._app(self._scope(scope), receive_body, show)
        end = f"{escape(reader.end())}</pre>{_usage(reader.usage)}"
        await send(_piece(end + self._after.removeprefix("</pre>"), more=False))

    def _scope(self, scope: Message) -> Message:
        """Return the scope of the completion. Peer and headers are those of the browser, without its session."""
        headers = [(name, value) for name, value in scope["headers"] if name.lower() not in _DROPPED]
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(self._request)).encode())]
        if self._key:
            headers.append((b"authorization", f"Bearer {self._key}".encode("utf-8", "replace")))
        path = {"path": CHAT, "raw_path": CHAT.encode(), "query_string": b"", "root_path": ""}
        return {**scope, **path, "method": "POST", "headers": headers}


def _piece(html: str, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": html.encode(), "more_body": more}


def _headers(status: int, headers: list[tuple[bytes, bytes]]) -> str:
    """Return the HTML of the status and of the gateway's own response headers."""
    own = [(b"status", str(status).encode()), *((n, v) for n, v in headers if n.startswith(_SHOWN))]
    rows = "".join(
        f"<dt>{escape(name.decode('latin-1'))}</dt><dd>{escape(value.decode('latin-1'))}</dd>" for name, value in own
    )
    return f'<dl class="facts">{rows}</dl>'


def _usage(usage: Any) -> str:
    """Return the HTML of the token counts *usage*, or an empty string if the answer had none."""
    if not isinstance(usage, dict):
        return ""
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    counts = [("prompt", usage.get("prompt_tokens")), ("cached", cached), ("output", usage.get("completion_tokens"))]
    text = ", ".join(f"{name} {count} tokens" for name, count in counts if isinstance(count, int))
    return f'<p class="muted">{escape(text)}</p>' if text else ""
