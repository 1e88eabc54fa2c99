"""Stub worker with very low cost, so that benchmarks measure the proxy in front of it.

The stub worker supports the parts of HTTP/1.1 that proxies use with workers (keep-alive, bodies with a length or in
chunks, pipelining) and answers with prepared bytes. The stub worker does not look at prompts and caches nothing.

Rules:
    1. A stream is a hundred events, each its own HTTP chunk and its own write. All running streams get their next event
       in the same step, as an engine emits one token for every running sequence.
    2. The answer depends on the request in three things only: the path, ``stream`` and ``include_usage``. But for the
       tokens of a prompt, which some routers ask a worker for.
    3. One process may be several workers, each on a port of its own: they cost no more than one.

``GET /served`` reports how many completions it was asked for, ``POST /break`` makes it answer them with status 500.
"""

import argparse
import asyncio
import functools
import json
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import msgspec
import numpy as np
import uvloop

EVENTS_PER_STREAM = 100
PROMPT_TOKENS = 300  # what a 1.2 kB chat body comes to
BLOCK_SIZE = 16  # vLLM's default, in tokens
NUM_GPU_BLOCKS = 8192

BYTES_PER_TOKEN = 4
VOCABULARY = 32_000
KNOWN_PROMPTS = 256  # of which the tokens are kept: a benchmark goes through the same ones over and over

CREATED_S = 1_760_000_000
CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
LAST_CHUNK = b"\r\n0\r\n\r\n"

# In JSON text a quote inside a string is escaped, so a prompt that talks about "stream" cannot match these.
STREAM = re.compile(rb'"stream"\s*:\s*true')
INCLUDE_USAGE = re.compile(rb'"include_usage"\s*:\s*true')


@dataclass(frozen=True, slots=True)
class Script:
    """Prepared bytes of all answers, including heads and framing."""

    chat: bytes
    stream_head: bytes
    events: tuple[bytes, ...]
    usage: bytes
    done: bytes
    pages: dict[bytes, bytes]
    """Answers to GET requests, by path."""
    not_found: bytes
    broken: bytes


@dataclass(frozen=True, slots=True)
class Pace:
    """Delays of the worker. Zero means no delay."""

    first_byte_s: float = 0.0
    event_s: float = 0.0
    slots: int | None = None
    """Number of requests that are in prefill at a time, or None for all. Other requests wait."""


def write_script(model: str, *, num_gpu_blocks: int = NUM_GPU_BLOCKS) -> Script:
    """Return all answers of a worker that serves *model* and reports a cache of *num_gpu_blocks* blocks."""
    return Script(
        chat=_response(200, "application/json", _json(_completion(model))),
        stream_head=(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
        ),
        events=tuple(_http_chunk(_event(_delta(model, number))) for number in range(EVENTS_PER_STREAM)),
        usage=_http_chunk(_event({**_chunk(model), "choices": [], "usage": _usage()})),
        done=_http_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n",
        pages={
            b"/health": _response(200, "text/plain", b""),
            b"/v1/models": _response(200, "application/json", _json(_models(model))),
            b"/metrics": _response(200, "text/plain; version=0.0.4", _metrics(model, num_gpu_blocks)),
        },
        not_found=_response(404, "application/json", _json({"detail": "Not Found"})),
        broken=_response(
            500, "application/json", _json({"error": {"message": "broken", "type": "InternalServerError"}})
        ),
    )


class Slots:
    """Prefill of the simulated engine: a limited number of requests at a time, in the order of their arrival."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pace: Pace) -> None:
        self._loop = loop
        self._busy_s = pace.first_byte_s
        self._free = pace.slots
        self._waiting: deque[Callable[[], None]] = deque()

    def enter(self, then: Callable[[], None]) -> None:
        """Call *then* when the prefill of the request is done."""
        if self._free == 0:
            self._waiting.append(then)
            return
        if self._free is not None:
            self._free -= 1
        self._loop.call_later(self._busy_s, self._leave, then)

    def _leave(self, then: Callable[[], None]) -> None:
        if self._waiting:
            self._loop.call_later(self._busy_s, self._leave, self._waiting.popleft())
        elif self._free is not None:
            self._free += 1
        then()


class Worker:
    """State that the connections of one worker share."""

    def __init__(self, loop: asyncio.AbstractEventLoop, script: Script, pace: Pace) -> None:
        self.script = script
        self.pace = pace
        self.steps = Steps(loop, script, pace)
        self.slots = Slots(loop, pace)
        self.served = 0
        """Number of completion requests that the worker received."""
        self.is_broken = False

    def page(self, path: bytes) -> bytes:
        """Return the answer to ``GET path``."""
        if path == b"/served":
            return _response(200, "application/json", _json({"served": self.served}))
        return self.script.pages.get(path, self.script.not_found)


class Steps:
    """Loop of the simulated engine. Each step sends one event to every running stream."""

    def __init__(self, loop: asyncio.AbstractEventLoop, script: Script, pace: Pace) -> None:
        self._loop = loop
        self._events = script.events
        self._pace = pace
        self._running: dict[asyncio.Transport, tuple[deque[bytes], Callable[[], None]]] = {}
        self._is_stepping = False

    def start(self, transport: asyncio.Transport, tail: bytes, finished: Callable[[], None]) -> None:
        """Stream to *transport* from the next step on. *tail* follows the last event, and then *finished* is called."""
        self._running[transport] = (deque((*self._events, tail)), finished)
        if not self._is_stepping:
            self._is_stepping = True
            self._after_a_step()

    def stop(self, transport: asyncio.Transport) -> None:
        """Remove a stream whose reader has disconnected. A stream that is not running is ignored."""
        self._running.pop(transport, None)

    def _after_a_step(self) -> None:
        if self._pace.event_s:
            self._loop.call_later(self._pace.event_s, self._step)
        else:
            self._loop.call_soon(self._step)

    def _step(self) -> None:
        # A stream is some 25 kB in all, below the transport's high-water mark: nothing here needs back-pressure.
        for transport, (events, finished) in list(self._running.items()):
            transport.write(events.popleft())
            if not events:
                del self._running[transport]
                finished()
        self._is_stepping = bool(self._running)
        if self._is_stepping:
            self._after_a_step()


class Connection(asyncio.Protocol):
    """Keep-alive connection. Requests that arrive during an answer wait in the buffer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, worker: Worker) -> None:
        self._loop = loop
        self._worker = worker
        self._script = worker.script
        self._buffer = b""
        self._is_answering = False
        self._is_last = False
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports only look like asyncio's

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._worker.steps.stop(self._transport)

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        self._answer_next()

    def _answer_next(self) -> None:
        while self._buffer and not self._is_answering:
            head_end = self._buffer.find(b"\r\n\r\n")
            if head_end < 0:
                return
            end = _end_of_request(self._buffer, head_end)
            if len(self._buffer) < end:
                return
            request, self._buffer = self._buffer[:end], self._buffer[end:]
            self._answer(request, head_end)

    def _answer(self, request: bytes, head_end: int) -> None:
        self._is_answering = True
        self._is_last = request.find(b"onnection: close", 0, head_end) >= 0
        if not request.startswith(b"POST /v1/chat/completions "):
            self._transport.write(self._page(request, head_end))
            self._answered()
            return
        self._worker.served += 1
        if self._worker.is_broken:
            self._transport.write(self._script.broken)
            self._answered()
        elif self._worker.pace.first_byte_s:
            self._worker.slots.enter(functools.partial(self._complete, request, head_end))
        else:
            self._complete(request, head_end)

    def _page(self, request: bytes, head_end: int) -> bytes:
        method, path = request[: request.find(b" HTTP/", 0, head_end)].split(b" ", 1)
        if method == b"GET":
            return self._worker.page(path)
        if path == b"/tokenize":
            return tokenized(request[head_end + 4 :])
        if path == b"/break":
            self._worker.is_broken = True
            return self._script.pages[b"/health"]
        return self._script.not_found

    def _complete(self, request: bytes, head_end: int) -> None:
        if self._transport.is_closing():
            return
        # A plain search first: it is fast, and without the word there is nothing to look at more closely.
        at = request.find(b'"stream"', head_end)
        if at >= 0 and STREAM.search(request, at):
            tail = self._script.done
            if INCLUDE_USAGE.search(request, head_end):
                tail = self._script.usage + tail
            self._transport.write(self._script.stream_head)
            self._worker.steps.start(self._transport, tail, self._answered)
        else:
            self._transport.write(self._script.chat)
            self._answered()

    def _answered(self) -> None:
        self._is_answering = False
        if self._is_last:
            self._buffer = b""
            self._transport.close()
        elif self._buffer:
            self._loop.call_soon(self._answer_next)


def _end_of_request(got: bytes, head_end: int) -> int:
    """Return the length of the first request in *got*, which is more than has arrived if it is not complete."""
    length = CONTENT_LENGTH.search(got, 0, head_end + 2)
    if length is not None or CHUNKED.search(got, 0, head_end + 2) is None:
        return head_end + 4 + (int(length[1]) if length is not None else 0)
    # The text of JSON has no carriage return, so only the last chunk looks like this.
    last = got.find(LAST_CHUNK, head_end + 2)
    return len(got) + 1 if last < 0 else last + len(LAST_CHUNK)


async def serve(script: Script, *, port: int = 0, host: str = "127.0.0.1", pace: Pace | None = None) -> asyncio.Server:
    """Listen on a port. The caller closes the server. Port 0 is any free port, which ``server.sockets`` reports."""
    loop = asyncio.get_running_loop()
    worker = Worker(loop, script, pace or Pace())
    return await loop.create_server(lambda: Connection(loop, worker), host, port, backlog=1024)


@functools.lru_cache(KNOWN_PROMPTS)
def tokenized(body: bytes) -> bytes:
    """Return the tokens of a prompt in the format of vLLM's answer. Four bytes make a token, and equal texts give equal
    tokens.

    Cheap, 0.1 ms for 20 kB: real tokenizing is not what a benchmark of routers is about.
    """
    asked = msgspec.json.decode(body)
    text = asked.get("prompt") or "".join(f"{each['role']}: {each['content']}\n" for each in asked["messages"])
    data = text.encode()
    words = np.frombuffer(data + bytes(-len(data) % BYTES_PER_TOKEN), np.uint32)
    answer = {"count": len(words), "max_model_len": 131_072, "tokens": (words % VOCABULARY).tolist()}
    return _response(200, "application/json", msgspec.json.encode(answer))


def _response(status: int, content_type: str, body: bytes) -> bytes:
    reason = {200: "OK", 404: "Not Found", 500: "Internal Server Error"}[status]
    head = f"HTTP/1.1 {status} {reason}\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + _json(value) + b"\n\n"


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _usage() -> dict[str, int]:
    return {
        "prompt_tokens": PROMPT_TOKENS,
        "completion_tokens": EVENTS_PER_STREAM,
        "total_tokens": PROMPT_TOKENS + EVENTS_PER_STREAM,
    }


def _completion(model: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": "The stub has nothing to add."}
    return {
        "id": "chatcmpl-stub",
        "object": "chat.completion",
        "created": CREATED_S,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "usage": _usage(),
    }


def _chunk(model: str) -> dict[str, Any]:
    return {"id": "chatcmpl-stub", "object": "chat.completion.chunk", "created": CREATED_S, "model": model}


def _delta(model: str, number: int) -> dict[str, Any]:
    """Return event *number* of a stream. The first event carries the role, and the last one the finish reason."""
    delta = {"role": "assistant", "content": "t0"} if number == 0 else {"content": f" t{number}"}
    finish_reason = "stop" if number == EVENTS_PER_STREAM - 1 else None
    return {
        **_chunk(model),
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}],
    }


def _models(model: str) -> dict[str, Any]:
    card = {"id": model, "object": "model", "created": CREATED_S, "owned_by": "stub", "max_model_len": 131_072}
    return {"object": "list", "data": [card]}


def _metrics(model: str, num_gpu_blocks: int) -> bytes:
    """Return the gauges of vLLM that routers read. Their values are constant, because a stub worker has no load."""
    label = f'{{model_name="{model}"}}'
    lines = [
        "# TYPE vllm:num_requests_running gauge",
        f"vllm:num_requests_running{label} 0.0",
        "# TYPE vllm:num_requests_waiting gauge",
        f"vllm:num_requests_waiting{label} 0.0",
        "# TYPE vllm:kv_cache_usage_perc gauge",
        f"vllm:kv_cache_usage_perc{label} 0.0",
        "# TYPE vllm:cache_config_info gauge",
        f'vllm:cache_config_info{{block_size="{BLOCK_SIZE}",num_gpu_blocks="{num_gpu_blocks}"}} 1.0',
    ]
    return ("\n".join(lines) + "\n").encode()


async def _serve_for_ever(arguments: argparse.Namespace) -> None:
    script = write_script(arguments.model, num_gpu_blocks=arguments.blocks)
    pace = Pace(arguments.first_byte_ms / 1e3, arguments.event_ms / 1e3, arguments.slots)
    ports = (arguments.port, *[0] * (arguments.workers - 1))
    servers = [await serve(script, port=port, pace=pace) for port in ports]
    addresses = [server.sockets[0].getsockname() for server in servers]
    print("ready: " + ",".join(f"http://{host}:{port}" for host, port in addresses), flush=True)
    await asyncio.gather(*(server.serve_forever() for server in servers))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stub_worker", description=__doc__.split("\n")[0])
    parser.add_argument("--port", type=int, default=0, help="0 (the default) is any free one; the ready line names it")
    parser.add_argument("--workers", type=int, default=1, help="on a port each; the ready line has all, with commas")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--blocks", type=int, default=NUM_GPU_BLOCKS, help="num_gpu_blocks it claims in /metrics")
    parser.add_argument("--first-byte-ms", type=float, default=0.0, help="wait before every answer")
    parser.add_argument("--event-ms", type=float, default=0.0, help="wait before every event of a stream")
    parser.add_argument("--slots", type=int, help="how many wait for their first byte at a time; default: all")
    uvloop.run(_serve_for_ever(parser.parse_args()))


if __name__ == "__main__":
    main()
