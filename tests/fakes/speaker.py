"""A model server that says what a test reports it to, in the pieces that the test cuts, over a real socket."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn

Body = dict[str, Any]


@dataclass
class Speaker:
    """What it says can be changed while it runs."""

    whole: Callable[[Body], Any] = lambda body: {"choices": []}
    """The answer to a request that does not stream."""
    pieces: Callable[[Body], Iterable[bytes]] = lambda body: ()
    """The bytes of a stream, as they go on the wire, each by itself."""
    dies: Callable[[Body], asyncio.Event | None] = lambda body: None
    """When, after the pieces, the connection is cut; None: the stream ends as it should."""
    url: str = ""
    asked: list[Body] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        raw = b""
        while True:
            message = await receive()
            raw += message.get("body", b"")
            if not message.get("more_body"):
                break
        if scope["method"] == "GET":
            status = 200 if scope["path"] == "/health" else 404
            await self._answer(send, b"", b"text/plain", status)
            return
        body = json.loads(raw)
        self.asked.append(body)
        self.paths.append(scope["path"])
        self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        if not body.get("stream"):
            await self._answer(send, json.dumps(self.whole(body)).encode(), b"application/json")
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for piece in self.pieces(body):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(0)
        death = self.dies(body)
        if death is not None:
            await death.wait()
            raise ConnectionError
        await send({"type": "http.response.body", "body": b""})

    async def _answer(self, send: Any, body: bytes, media: bytes, status: int = 200) -> None:
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", media)]})
        await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def speaking(speaker: Speaker) -> AsyncIterator[Speaker]:
    """*speaker* at a free port of this machine."""
    config = uvicorn.Config(speaker, host="127.0.0.1", port=0, log_level="critical", lifespan="off")
    server = uvicorn.Server(config)
    task = asyncio.ensure_future(server._serve())
    while not server.started:
        await asyncio.sleep(0.01)
    speaker.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield speaker
    finally:
        server.should_exit = True
        server.force_exit = True
        await task


def chunk(content: str | None = None, *, finish: str | None = None, index: int = 0, **delta: Any) -> bytes:
    """One of OpenAI's chunks, as an event."""
    says = {**({} if content is None else {"content": content}), **delta}
    choice = {"index": index, "delta": says, "logprobs": None, "finish_reason": finish}
    reported = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 7,
        "model": "tiny",
        "choices": [choice],
    }
    return b"data: " + json.dumps(reported).encode() + b"\n\n"


def chunks(*pieces: str) -> list[bytes]:
    """A whole stream that says *pieces*."""
    return [chunk("", role="assistant"), *[chunk(piece) for piece in pieces], chunk(finish="stop"), b"data: [DONE]\n\n"]


def events_of(data: bytes) -> list[Any]:
    """The JSON of all events of a stream, without its end mark."""
    found = [line[6:] for line in data.split(b"\n") if line.startswith(b"data: ")]
    return [json.loads(line) for line in found if line != b"[DONE]"]


def said_in(data: bytes, name: str = "content", index: int = 0) -> str:
    """What a stream of chunks says in one field of one choice."""
    choices = [choice for event in events_of(data) for choice in event.get("choices", ())]
    return "".join([choice["delta"].get(name) or "" for choice in choices if choice["index"] == index])


def message(content: str, **more: Any) -> Body:
    """A whole chat completion."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 7,
        "model": "tiny",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop", **more}
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 9, "total_tokens": 16},
    }


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    """*data* in pieces that end at *places*."""
    ends = [*places, len(data)]
    return [data[start:end] for start, end in zip([0, *places], ends, strict=True) if end > start]
