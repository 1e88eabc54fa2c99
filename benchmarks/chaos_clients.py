"""Clients of `benchmarks.chaos`, which stream continuously and compare every answer with the expected answer.

    python -m benchmarks.chaos_clients --url URL --clients 25 --seconds 60

Each client has a connection and one request at a time. The prompt determines the answer of a simulated worker, so the
clients know the complete expected answer in advance.

When all clients have ended, the program writes one JSON line (a `Record`) for each request to standard output.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

import httptools
import msgspec
import uvloop

from benchmarks.memory import address
from simulator.answers import answer
from simulator.detokenizer import Detokenizer
from simulator.rendering import render_chat
from simulator.tokens import TokenSequence

MODEL = "tiny"
PATIENCE_S = 120.0
PAUSE_S = 1.0
"""Pause after an error. Clients that get an error retry a little later."""
COMPLETION_ONE_IN = 4
"""Number of requests per completion request. All other requests are chats."""
DETAIL_CHARACTERS = 300
CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
INSTRUCTIONS = "You answer questions about numbers. Keep to the facts, and to short sentences. " * 4


class Verdict(msgspec.Struct, frozen=True):
    """Result of checking one request."""

    kind: str
    """Kind of the result: `right`, an error in a complete answer (`wrong text`...), or a failure (`status 503`,
    `cut`...).
    """
    detail: str = ""
    """Detail for analyzing the result."""

    @property
    def is_right(self) -> bool:
        return self.kind == "right"

    @property
    def is_wrong(self) -> bool:
        """Whether the caller got a successful answer with wrong content."""
        return self.kind.startswith("wrong")


RIGHT = Verdict("right")


class Record(msgspec.Struct, frozen=True):
    """Record of one request, as seen by its client."""

    id: str
    """Id of the request in the gateway's log."""
    at: float
    """Unix time in seconds at which the request was sent."""
    ttft_s: float | None
    """Seconds to the first byte of the answer's body."""
    took_s: float
    verdict: Verdict
    pause_s: float = 0.0
    """Longest time in seconds without data, including the time before the first byte."""


@dataclass(frozen=True, slots=True)
class Question:
    """Request with its only correct answer."""

    path: str
    body: dict[str, Any]
    prompt_tokens: int
    text: str
    tokens: int

    @classmethod
    def of(cls, name: str, *, tokens: int, is_chat: bool) -> "Question":
        """Return a different question for each *name*, with an answer of *tokens* tokens."""
        asked = f"What is there to say of the number {name}? Begin with what is known of it, and end with a guess."
        common = {
            "model": MODEL,
            "max_tokens": tokens,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if is_chat:
            messages = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": asked}]
            prompt = TokenSequence.from_text(render_chat(messages))
            path, body = CHAT, {**common, "messages": messages}
        else:
            prompt, path, body = TokenSequence.from_text(asked), COMPLETION, {**common, "prompt": asked}
        made = answer(prompt, max_tokens=tokens, ignore_eos=True)
        detokenizer = Detokenizer(prompt)
        text = "".join(map(detokenizer.feed, made.tokens.ids))
        return cls(path, body, len(prompt), text, tokens)

    def request(self, host: str, request_id: str, key: str | None = None) -> bytes:
        """Return the HTTP/1.1 request, with the API key *key* if given."""
        body = json.dumps(self.body).encode()
        bearer = "" if key is None else f"authorization: Bearer {key}\r\n"
        head = (
            f"POST {self.path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n{bearer}"
            f"x-request-id: {request_id}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def judge(self, body: bytes) -> Verdict:
        """Check a stream that ended as HTTP requires."""
        try:
            events = _events(body)
        except ValueError as error:
            return Verdict("wrong event", str(error)[:DETAIL_CHARACTERS])
        failures = [event["error"] for event in events if event is not None and "error" in event]
        if failures:
            return Verdict(f"error event {failures[0].get('code')}", json.dumps(failures[0])[:DETAIL_CHARACTERS])
        if not events or events[-1] is not None:
            return Verdict("cut", f"no [DONE] after {len(events)} events")
        return self._judge_whole([event for event in events if event is not None])

    def _judge_whole(self, events: list[dict[str, Any]]) -> Verdict:
        heads = {tuple(event.get(name) for name in ("id", "object", "created", "model")) for event in events}
        if len(heads) != 1:
            return Verdict("wrong head", str(sorted(map(str, heads)))[:DETAIL_CHARACTERS])
        choices = [event["choices"][0] for event in events if event["choices"]]
        text = "".join(self._text(choice) for choice in choices)
        if text != self.text:
            return Verdict("wrong text", _difference(self.text, text))
        roles = [place for place, choice in enumerate(choices) if "role" in choice.get("delta", {})]
        if roles != ([0] if self.path == CHAT else []):
            return Verdict("wrong roles", f"in events {roles}")
        reasons = [choice["finish_reason"] for choice in choices if choice["finish_reason"] is not None]
        if reasons != ["length"] or choices[-1]["finish_reason"] is None:
            return Verdict("wrong end", str(reasons))
        if any(choice.get("token_ids") or choice.get("prompt_token_ids") for choice in choices):
            return Verdict("wrong ids", "they were not asked for")
        return self._judge_usage([event["usage"] for event in events if event.get("usage")])

    def _judge_usage(self, reported: list[dict[str, Any]]) -> Verdict:
        wanted = (self.prompt_tokens, self.tokens, self.prompt_tokens + self.tokens)
        seen = [tuple(usage.get(f"{name}_tokens") for name in ("prompt", "completion", "total")) for usage in reported]
        return RIGHT if seen == [wanted] else Verdict("wrong usage", f"{seen} for {wanted}")

    def _text(self, choice: dict[str, Any]) -> str:
        text: str = choice["delta"].get("content") or "" if self.path == CHAT else choice["text"]
        return text


def _events(body: bytes) -> list[dict[str, Any] | None]:
    """Yield the events of a stream, with None for `[DONE]`. Raises `ValueError` for invalid JSON."""
    events: list[dict[str, Any] | None] = []
    for block in body.decode().split("\n\n"):
        if block.startswith("data: "):
            data = block.removeprefix("data: ")
            events.append(None if data == "[DONE]" else json.loads(data))
        elif block and not block.startswith(":"):
            raise ValueError(f"no event: {block[:DETAIL_CHARACTERS]!r}")
    return events


def _difference(wanted: str, seen: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip(wanted, seen, strict=False)) if a != b), min(len(wanted), len(seen)))
    lengths = f"{len(seen)} of {len(wanted)} characters"
    return f"{lengths}, differs at {at}: {wanted[at : at + 40]!r} became {seen[at : at + 40]!r}"


@dataclass(slots=True)
class Received:
    """Received part of one answer."""

    done: asyncio.Future[None]
    asked_at: float
    """Time at which the request was sent, in monotonic seconds like all times of the class."""
    status: int | None = None
    body: list[bytes] = field(default_factory=list)
    first_at: float | None = None
    last_at: float | None = None
    pause_s: float = 0.0
    is_whole: bool = False

    def take(self, body: bytes, now: float) -> None:
        self.first_at = now if self.first_at is None else self.first_at
        self.pause_s = max(self.pause_s, now - (self.asked_at if self.last_at is None else self.last_at))
        self.last_at = now
        self.body.append(body)

    def judge(self, question: Question) -> Verdict:
        body = b"".join(self.body)
        if self.status is None:
            return Verdict("no answer", "the connection ended before the head of an answer")
        if self.status != 200:
            return Verdict(f"status {self.status}", body.decode("utf-8", "replace")[:DETAIL_CHARACTERS])
        if self.is_whole:
            return question.judge(body)
        verdict = question.judge(body[: body.rfind(b"\n\n") + 2])
        # A stream may reports its failure and then be cut, so that no HTTP client takes it for whole.
        return verdict if verdict.kind.startswith("error") else Verdict("cut", f"within the body, {len(body)} bytes")


class Connection(asyncio.Protocol):
    """Connection of one client, with one request at a time."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._received: Received | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes, *, patience_s: float = PATIENCE_S) -> Received:
        """Send *request* and return the received data when the answer is complete, the connection ends, or *patience_s*
        is over.
        """
        assert self._transport is not None, "it is not connected"
        received = self._received = Received(asyncio.get_running_loop().create_future(), time.monotonic())
        self._transport.write(request)
        await asyncio.wait([received.done], timeout=patience_s)
        if not received.is_whole:
            self._transport.abort()
        return received

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are of no class of asyncio's

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:  # no HTTP: as good as nothing
            assert self._transport is not None
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._finish()

    # httptools

    def on_headers_complete(self) -> None:
        if self._received is not None:
            self._received.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        if self._received is not None:
            self._received.take(body, time.monotonic())

    def on_message_complete(self) -> None:
        if self._received is not None:
            self._received.is_whole = True
        self._finish()
        if not self._parser.should_keep_alive() and self._transport is not None:
            self._transport.close()

    def _finish(self) -> None:
        if self._received is not None and not self._received.done.done():
            self._received.done.set_result(None)


class Client:
    """Client that sends one question after the other. Client numbers are unique, so no question is repeated."""

    def __init__(self, url: str, number: int, *, tokens: int, rng: random.Random, key: str | None = None) -> None:
        self._url = url
        self._key = key
        self._number = number
        self._tokens = tokens
        self._rng = rng
        self._connection = Connection()
        self.records: list[Record] = []

    async def run(self, until: float) -> None:
        """Send requests until the loop's clock reaches *until*, and wait for running requests."""
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            record = await self.ask(f"{self._number}.{len(self.records)}")
            self.records.append(record)
            if not record.verdict.is_right:
                await asyncio.sleep(PAUSE_S)

    async def ask(self, name: str) -> Record:
        question = Question.of(name, tokens=self._tokens, is_chat=self._rng.randrange(COMPLETION_ONE_IN) > 0)
        host, request_id = urlsplit(self._url).netloc, f"chaos-{name}"
        at, begun = time.time(), time.monotonic()
        try:
            if not self._connection.is_open:
                self._connection = await self._connect()
            received = await self._connection.ask(question.request(host, request_id, self._key))
        except OSError as error:
            return Record(request_id, at, None, time.monotonic() - begun, Verdict("no connection", str(error)))
        took_s = time.monotonic() - begun
        ttft_s = None if received.first_at is None else received.first_at - begun
        verdict = Verdict("timeout") if took_s >= PATIENCE_S else received.judge(question)
        return Record(request_id, at, ttft_s, took_s, verdict, received.pause_s)

    async def _connect(self) -> Connection:
        return (await asyncio.get_running_loop().create_connection(Connection, *address(self._url)))[1]


async def run(arguments: argparse.Namespace) -> list[Record]:
    numbers = range(arguments.first, arguments.first + arguments.clients)
    rng = random.Random(f"{arguments.seed}.{arguments.first}")
    clients = [Client(arguments.url, number, tokens=arguments.tokens, rng=rng, key=arguments.key) for number in numbers]
    until = asyncio.get_running_loop().time() + arguments.seconds

    async def begin(client: Client) -> None:
        await asyncio.sleep(rng.uniform(0, min(arguments.spread_s, arguments.seconds)))
        await client.run(until)

    async with asyncio.TaskGroup() as tasks:
        for client in clients:
            tasks.create_task(begin(client))
    return [record for client in clients for record in client.records]


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.chaos_clients", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--url", required=True, help="of the gateway")
    parser.add_argument("--clients", type=int, default=25)
    parser.add_argument("--first", type=int, default=0, help="number of the first of them")
    parser.add_argument("--seconds", type=float, default=60.0, help="after which nothing new is asked")
    parser.add_argument("--tokens", type=int, default=64, help="of each answer")
    parser.add_argument("--spread-s", type=float, default=2.5, help="within which the clients begin")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--key", help="that they bring")
    return parser.parse_args(arguments)


def main() -> int:
    records = uvloop.run(run(parse_arguments()))
    sys.stdout.buffer.write(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
