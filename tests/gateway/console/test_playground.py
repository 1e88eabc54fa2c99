"""Answers that stream into a page; the application for completions is written here."""

from collections.abc import Sequence
from typing import Any

import pytest

from gateway.console.playground import HEADERS_MARKER, MARKER, AnswerReader, Played
from gateway.server.asgi import App, Message, Receive, Send

HTML = f"<main>{HEADERS_MARKER}<pre>{MARKER}</pre></main>"


class Completions:
    """An application that keeps the request, and answers with *pieces*."""

    def __init__(self, pieces: Sequence[bytes], *, media: bytes = b"text/event-stream", status: int = 200) -> None:
        self.pieces, self.media, self.status = pieces, media, status
        self.scope: Message = {}
        self.body = b""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        self.scope, self.body = scope, (await receive())["body"]
        headers = [(b"content-type", self.media), (b"x-warmgate-worker", b"<w1>"), (b"server", b"x")]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        for piece in self.pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def played(app: App, *, key: str = "sk-1") -> list[Message]:
    """Return the messages of the page with the answer of *app*."""
    messages: list[Message] = []
    headers = [(b"host", b"localhost"), (b"cookie", b"secret"), (b"x-forwarded-for", b"10.0.0.1")]
    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/console/explain/send", "headers": headers}

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        messages.append(message)

    await Played(app, HTML, body=b'{"model":"tiny"}', key=key)({**scope, "client": ("127.0.0.1", 1)}, receive, send)
    return messages


async def test_an_answer_streams_into_the_page() -> None:
    """Escaped, with headers before it and token counts after it."""
    app = Completions(
        [
            b'data: {"choices":[{"delta":{"content":"<b>He',
            b'llo"}}]}\n\n',
            b'data: {"choices":[{"delta":{"reasoning_content":"x"}}]}\n\n',
            b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,'
            b'"prompt_tokens_details":{"cached_tokens":4}}}\n\ndata: [DONE]\n\n',
        ]
    )
    start, *pieces = await played(app)

    assert (200, "text/html; charset=utf-8") == (start["status"], dict(start["headers"])[b"content-type"].decode())
    assert b"default-src 'none'" in dict(start["headers"])[b"content-security-policy"]
    assert [
        "<main>",
        '<dl class="facts"><dt>status</dt><dd>200</dd><dt>x-warmgate-worker</dt><dd>&lt;w1&gt;</dd></dl><pre>',
        "&lt;b&gt;Hello",
        "x",
        '</pre><p class="muted">prompt 7 tokens, cached 4 tokens, output 2 tokens</p></main>',
    ] == [piece["body"].decode() for piece in pieces]
    assert [True, True, True, True, False] == [piece["more_body"] for piece in pieces]


async def test_the_request_has_the_key_and_not_the_session() -> None:
    app = Completions([])
    await played(app)
    headers = dict(app.scope["headers"])

    assert (b'{"model":"tiny"}', "/v1/chat/completions", ("127.0.0.1", 1)) == (
        app.body,
        app.scope["path"],
        app.scope["client"],
    )
    assert b"Bearer sk-1" == headers[b"authorization"]
    assert b"10.0.0.1" == headers[b"x-forwarded-for"]
    assert b"cookie" not in headers


async def test_without_a_key_none_is_sent() -> None:
    app = Completions([])
    await played(app, key="")

    assert b"authorization" not in dict(app.scope["headers"])


async def test_an_error_is_shown() -> None:
    app = Completions([b'{"error":{"message":"The key is <unknown>"}}'], media=b"application/json", status=401)
    text = b"".join(piece["body"] for piece in (await played(app))[1:]).decode()

    assert "<dt>status</dt><dd>401</dd>" in text
    assert "<pre>The key is &lt;unknown&gt;</pre>" in text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b'{"choices":[{"message":{"content":"Hello"}}]}', "Hello"),
        (b'{"choices":7}', '{"choices":7}'),
        (b"no JSON", "no JSON"),
    ],
)
def test_an_answer_that_is_no_stream_is_read_at_its_end(raw: bytes, text: str) -> None:
    reader = AnswerReader()

    assert ("", text) == (reader.feed(raw), reader.end())
