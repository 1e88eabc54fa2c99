"""A stand-in for Amazon Bedrock's runtime on a real socket: Converse, ConverseStream, and OpenAI's chat completions.

As strict as the strictest of the real models: it recomputes the signature (or wants a bearer token), checks each body
against AWS's own service model (and the limits and patterns in it that botocore's validator passes over), and refuses
turns that do not alternate, and tools that are called without being declared. What it answers is scripted. That it is
faithful is shown by botocore's own client, and OpenAI's, in `tests/fakes/test_bedrock.py`.

    async with FakeBedrock().serving() as fake:
        fake.next(Says(("Hello", " world")), Refuses(429, "ThrottlingException", "slow down"))
        ...  # endpoint_url=fake.base_url, credentials from ENVIRONMENT
        assert fake.rejections == []
"""

import asyncio
import contextlib
import functools
import itertools
import json
import random
import re
import socket
import struct
import zlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import quote, unquote

import uvicorn
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials, ReadOnlyCredentials
from botocore.session import Session
from botocore.validate import ParamValidator
from openai.types.chat.completion_create_params import CompletionCreateParamsBase

REGION = "us-east-1"
CREDENTIALS = ReadOnlyCredentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "TOKEN")

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": CREDENTIALS.access_key,
    "AWS_SECRET_ACCESS_KEY": CREDENTIALS.secret_key,
    "AWS_SESSION_TOKEN": "TOKEN",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nonexistent/config",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent/credentials",
}
"""What a process needs to sign for the fake, and to look for credentials nowhere else."""

FOREIGN_ENVIRONMENT = ("AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE")
"""What a developer's shell may hold that would keep botocore from those."""


class KeyHolder:
    """In place of a botocore session: has the fake's keys, whatever the environment says."""

    def get_credentials(self) -> Credentials:
        return Credentials(CREDENTIALS.access_key, CREDENTIALS.secret_key, CREDENTIALS.token)


OPENAI_PATH = "/openai/v1/chat/completions"

USAGE = {"inputTokens": 11, "outputTokens": 5, "totalTokens": 16}

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


# --- frames -----------------------------------------------------------------------------------------------------------


def encode_frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """One message of ``application/vnd.amazon.eventstream``, all headers of type string (7)."""
    head = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack("!H", len(value.encode())) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack("!II", len(head) + len(payload) + 16, len(head))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + head + payload
    return message + struct.pack("!I", zlib.crc32(message))


def event(name: str, payload: Mapping[str, Any]) -> bytes:
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return encode_frame(headers, _json(payload))


def exception(kind: str, message: str) -> bytes:
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return encode_frame(headers, _json({"message": message}))


def error(code: str, message: str) -> bytes:
    return encode_frame({":message-type": "error", ":error-code": code, ":error-message": message}, b"")


def text_delta(text: str, *, block: int = 0) -> bytes:
    return event("contentBlockDelta", {"contentBlockIndex": block, "delta": {"text": text}})


def tool_start(name: str, *, id: str = "tooluse_1", block: int = 0) -> bytes:  # noqa: A002  # as in the event
    return event(
        "contentBlockStart", {"contentBlockIndex": block, "start": {"toolUse": {"toolUseId": id, "name": name}}}
    )


def tool_delta(fragment: str, *, block: int = 0) -> bytes:
    return event("contentBlockDelta", {"contentBlockIndex": block, "delta": {"toolUse": {"input": fragment}}})


MESSAGE_START = event("messageStart", {"role": "assistant"})


# --- scenarios --------------------------------------------------------------------------------------------------------


class Cut(Enum):
    """What may stand between, or after, the bytes of a stream."""

    STALL = "silence, with the connection open, until the caller leaves"
    ABORT = "the connection is reset"


@dataclass(frozen=True, slots=True)
class Use:
    """A tool call of the model's."""

    name: str
    input: Mapping[str, Any] = field(default_factory=dict)
    id: str = "tooluse_1"

    def to_deltas(self) -> list[dict[str, Any]]:
        """The input in fragments of at most seven characters; an empty one has none."""
        text = _json(self.input).decode() if self.input else ""
        return [{"toolUse": {"input": text[start : start + 7]}} for start in range(0, len(text), 7)]


@dataclass(frozen=True, slots=True)
class Says:
    """An answer, the same for all operations; a stream gets each of *texts* as a delta."""

    texts: tuple[str, ...] = ("Hello", " world")
    reasoning: str = ""
    uses: tuple[Use, ...] = ()
    empty_block_first: bool = False
    stop_reason: str = "end_turn"
    usage: Mapping[str, int] | None = field(default_factory=lambda: USAGE)

    def to_answer(self) -> dict[str, Any]:
        blocks: list[dict[str, Any]] = [{"text": ""}] if self.empty_block_first else []
        if self.reasoning:
            blocks.append({"reasoningContent": {"reasoningText": {"text": self.reasoning}}})
        if self.texts:
            blocks.append({"text": "".join(self.texts)})
        blocks += [{"toolUse": {"toolUseId": use.id, "name": use.name, "input": use.input}} for use in self.uses]
        answer: dict[str, Any] = {
            "metrics": {"latencyMs": 12},
            "output": {"message": {"content": blocks, "role": "assistant"}},
            "stopReason": self.stop_reason,
        }
        return answer | ({"usage": self.usage} if self.usage else {})

    def to_frames(self) -> Iterator[bytes]:
        """The events in the order of the real service, each padded with ``p`` to blur its size."""
        padding = random.Random(0)
        for name, payload in self._events():
            yield event(name, payload | {"p": "abcdefghijklmnopqrstuvwxyzABCDEFGH"[: padding.randint(1, 34)]})

    def _events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        yield "messageStart", {"role": "assistant"}
        for block, (start, deltas) in enumerate(self._blocks()):
            if start is not None:
                yield "contentBlockStart", {"contentBlockIndex": block, "start": start}
            for delta in deltas:
                yield "contentBlockDelta", {"contentBlockIndex": block, "delta": delta}
            yield "contentBlockStop", {"contentBlockIndex": block}
        yield "messageStop", {"stopReason": self.stop_reason}
        if self.usage:
            yield "metadata", {"usage": self.usage, "metrics": {"latencyMs": 12}}

    def _blocks(self) -> list[tuple[dict[str, Any] | None, list[dict[str, Any]]]]:
        """Only tools have a start: text and reasoning begin with their first delta."""
        blocks: list[tuple[dict[str, Any] | None, list[dict[str, Any]]]] = []
        if self.empty_block_first:
            blocks.append((None, [{"text": ""}]))
        if self.reasoning:
            blocks.append((None, [{"reasoningContent": {"text": self.reasoning}}]))
        if self.texts:
            blocks.append((None, [{"text": text} for text in self.texts]))
        starts = [{"toolUse": {"toolUseId": use.id, "name": use.name}} for use in self.uses]
        return [*blocks, *zip(starts, [use.to_deltas() for use in self.uses], strict=True)]

    # On the OpenAI-compatible path gpt-oss writes its thoughts into the content.

    def to_completion(self, model: str) -> dict[str, Any]:
        text = "".join(self._texts_with_thoughts())
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        if self.uses:
            message["tool_calls"] = [_openai_call(use) for use in self.uses]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._openai_finish()}
        return _openai_head("chat.completion", model) | {"choices": [choice], "usage": _openai_usage()}

    def to_chunks(self, model: str) -> Iterator[bytes]:
        head = _openai_head("chat.completion.chunk", model)

        def chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return b"data: " + _json(head | {"choices": [choice]}) + b"\n\n"

        yield chunk({"role": "assistant", "content": ""})
        for text in self._texts_with_thoughts():
            yield chunk({"content": text})
        for number, use in enumerate(self.uses):
            yield chunk({"tool_calls": [{"index": number} | _openai_call(use)]})
        yield chunk({}, self._openai_finish())
        yield b"data: " + _json(head | {"choices": [], "usage": _openai_usage()}) + b"\n\n"
        yield b"data: [DONE]\n\n"

    def _texts_with_thoughts(self) -> list[str]:
        thoughts = [f"<reasoning>{self.reasoning}</reasoning>"] if self.reasoning else []
        return [*thoughts, *self.texts]

    def _openai_finish(self) -> str:
        return "tool_calls" if self.uses else {"max_tokens": "length"}.get(self.stop_reason, "stop")


def _openai_head(kind: str, model: str) -> dict[str, Any]:
    return {"id": "chatcmpl-0d5f0e4c", "object": kind, "created": 1764000000, "model": model}


def _openai_call(use: Use) -> dict[str, Any]:
    function = {"name": use.name, "arguments": _json(use.input).decode()}
    return {"id": use.id, "type": "function", "function": function}


def _openai_usage() -> dict[str, int]:
    return {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}


@dataclass(frozen=True, slots=True)
class Streams:
    """These bytes after a status of 200, in pieces as given. Without a `Cut` the body ends cleanly, whole or not."""

    steps: tuple[bytes | Cut, ...]
    promised_bytes: int = 0
    """A length that the headers name and the body does not reach; 0: none is named."""
    content_type: str = "application/vnd.amazon.eventstream"


@dataclass(frozen=True, slots=True)
class Refuses:
    """An error before the answer, as the real service words it."""

    status: int
    kind: str
    message: str = "no"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Raw:
    """Any JSON for a body, with a status of 200 or another."""

    body: Mapping[str, Any]
    status: int = 200


@dataclass(frozen=True, slots=True)
class Silent:
    """Not even a status: silence until the caller leaves, or the connection is reset."""

    cut: Cut = Cut.STALL


Scenario = Says | Streams | Refuses | Raw | Silent

# What the real service says to a path it does not know: with a status of 200.
CORAL = Raw({"Output": {"__type": "com.amazon.coral.service#UnknownOperationException"}, "Version": "1.0"})


@dataclass(frozen=True, slots=True)
class Received:
    """A request that passed every check."""

    operation: str
    model_id: str
    body: dict[str, Any]
    headers: dict[str, str]


# --- checks -----------------------------------------------------------------------------------------------------------


def signature_fault(*, url: str, headers: Mapping[str, str], body: bytes) -> str | None:
    """What is wrong with the ``authorization`` of a POST, by signing it again as the sender should have."""
    pattern = r"AWS4-HMAC-SHA256 Credential=([^,]+), SignedHeaders=([^,]+), Signature=([0-9a-f]{64})"
    match = re.fullmatch(pattern, headers.get("authorization", ""))
    if match is None:
        return "the Authorization header is missing or malformed"
    scope, signed, signature = match.groups()
    timestamp = headers.get("x-amz-date", "")
    if scope != f"{CREDENTIALS.access_key}/{timestamp[:8]}/{REGION}/bedrock/aws4_request":
        return "the credential scope is not this key, day, region and service"
    if not {"host", "x-amz-date", "x-amz-security-token"} <= set(signed.split(";")):
        return "a required header is not signed"
    request = AWSRequest("POST", url, data=body, headers={name: headers.get(name, "") for name in signed.split(";")})
    request.context["timestamp"] = timestamp
    auth = SigV4Auth(CREDENTIALS, "bedrock", REGION)
    expected = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    return None if expected == signature else "the signature does not match"


@functools.cache
def _input_shape(operation: str) -> Any:
    return Session().get_service_model("bedrock-runtime").operation_model(operation).input_shape


def body_faults(model_id: str, body: dict[str, Any], operation: str = "converse") -> list[str]:
    """Everything that AWS's service model, or the strictest of the models behind it, holds against *body*."""
    shape = _input_shape("ConverseStream" if operation == "converse-stream" else "Converse")
    report = ParamValidator().validate({"modelId": model_id, **body}, shape)
    if report.has_errors():
        return [report.generate_report()]
    return [
        *_limit_faults({"modelId": model_id, **body}, shape, ""),
        *_turn_faults(body),
        *_tool_faults(body),
        *_inference_faults(body),
    ]


def _limit_faults(value: Any, shape: Any, where: str) -> Iterator[str]:
    """Maxima, patterns and enums, which botocore's validator does not look at."""
    match shape.type_name:
        case "structure" if not shape.metadata.get("document"):
            for name, member in value.items():
                yield from _limit_faults(member, shape.members[name], f"{where}.{name}")
        case "list":
            if len(value) > shape.metadata.get("max", len(value)):
                yield f"{where} has too many members"
            for index, member in enumerate(value):
                yield from _limit_faults(member, shape.member, f"{where}[{index}]")
        case "map":
            for name, member in value.items():
                yield from _limit_faults(name, shape.key, f"{where}.{name}")
                yield from _limit_faults(member, shape.value, f"{where}.{name}")
        case _:
            yield from _scalar_faults(value, shape, where)


def _scalar_faults(value: Any, shape: Any, where: str) -> Iterator[str]:
    size = len(value) if shape.type_name == "string" else value
    if "max" in shape.metadata and size > shape.metadata["max"]:
        yield f"{where} is too long or too large"
    if shape.type_name != "string":
        return
    pattern = shape.metadata.get("pattern")
    if (pattern and not re.fullmatch(pattern, value)) or (shape.enum and value not in shape.enum):
        yield f"{where} is not one of the values allowed"


def _turn_faults(body: dict[str, Any]) -> Iterator[str]:
    roles = [message["role"] for message in body.get("messages", [])]
    if not roles or roles[0] != "user" or roles[-1] != "user":
        yield "A conversation must start and end with a user message."
    if any(one == two for one, two in itertools.pairwise(roles)) or "system" in roles:
        yield "Roles must alternate between user and assistant."
    blocks = [block for message in body.get("messages", []) for block in message["content"]] + body.get("system", [])
    if any(not block.get("text", "x").strip() for block in blocks):
        yield "The text field in the ContentBlock object is blank."
    if any(not message["content"] for message in body.get("messages", [])):
        yield "The content field in the Message object is empty."


def _tool_faults(body: dict[str, Any]) -> Iterator[str]:
    """Calls are answered in the next turn, all of them, and nothing else is; and a history of tools declares them."""
    turns = [message["content"] for message in body.get("messages", [])]
    for asked, answered in itertools.pairwise([[], *turns]):
        calls = {block["toolUse"]["toolUseId"] for block in asked if "toolUse" in block}
        results = {block["toolResult"]["toolUseId"] for block in answered if "toolResult" in block}
        if calls != results:
            yield "Expected toolResult blocks for exactly the toolUse blocks of the turn before."
    blocks = [block for turn in turns for block in turn]
    if any("toolUse" in block or "toolResult" in block for block in blocks) and "toolConfig" not in body:
        yield "The toolConfig field must be defined when using toolUse and toolResult content blocks."
    if any(not isinstance(block["toolUse"]["input"], dict) for block in blocks if "toolUse" in block):
        yield "The format of the value at toolUse.input is invalid. Provide a json object."


def _inference_faults(body: dict[str, Any]) -> Iterator[str]:
    inference = body.get("inferenceConfig", {})
    for name in ("temperature", "topP"):
        if not 0 <= inference.get(name, 0) <= 1:
            yield f"{name} must be between 0 and 1"


# --- the server -------------------------------------------------------------------------------------------------------


class FakeBedrock:
    """The service as an ASGI application; `serving` puts it on a socket."""

    def __init__(self, default: Scenario | None = None, *, bearer: str | None = None) -> None:
        """With *bearer* that API key is wanted, and no signature."""
        self.default = default or Says()
        self.bearer = bearer
        self.requests: list[Received] = []
        self.rejections: list[str] = []
        self.base_url = ""
        self._script: deque[Scenario] = deque()
        self._called = asyncio.Event()
        self._left = asyncio.Event()

    def next(self, *scenarios: Scenario) -> None:
        """What happens to the next requests, one each; after them, the default again."""
        self._script.extend(scenarios)

    async def was_called(self, *, within_s: float) -> bool:
        """Whether a request got as far as a scenario; waits for it."""
        return await _is_set(self._called, within_s)

    async def caller_left(self, *, within_s: float) -> bool:
        """Whether a caller went away during a `Cut.STALL`; waits for it."""
        return await _is_set(self._left, within_s)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["FakeBedrock"]:
        """Listen on a free port of the loopback until the context is left; `base_url` says where."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            config = uvicorn.Config(self, lifespan="off", log_config=None, access_log=False, ws="none")
            config.load()
            server = uvicorn.Server(config)
            server.lifespan = config.lifespan_class(config)
            await server.startup(sockets=[listener])
            try:
                yield self
            finally:
                for listening in server.servers:
                    listening.close()
                for connection in list(server.server_state.connections):
                    connection.transport.abort()
                await asyncio.gather(*server.server_state.tasks, return_exceptions=True)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        body = await _read(receive)
        raw_path = scope["raw_path"].decode()
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        match = re.fullmatch(r"/model/([^/]+)/(converse|converse-stream)", raw_path)
        if match is None and raw_path != OPENAI_PATH:
            self.rejections.append(f"no such path: {raw_path}")
            await _send_scenario(CORAL, "converse", receive, send)
            return
        refusal = self._unknown(f"http://{headers['host']}{raw_path}", headers, body)
        if match is None:
            received, faults = _openai_received(headers, body)
        else:
            received, faults = _received(match[1], match[2], headers, body)
        if refusal is None and faults:
            refusal = Refuses(400, "ValidationException", "; ".join(faults))
        if refusal is None:
            self.requests.append(received)
            self._called.set()
            scenario = self._script.popleft() if self._script else self.default
        else:
            self.rejections.append(refusal.message)
            scenario = refusal
        if not await _send_scenario(scenario, received.operation, receive, send):
            self._left.set()

    def _unknown(self, url: str, headers: Mapping[str, str], body: bytes) -> Refuses | None:
        if self.bearer is not None:
            is_known = headers.get("authorization") == f"Bearer {self.bearer}"
            return None if is_known else Refuses(403, "AccessDeniedException", "the API key is not valid")
        fault = signature_fault(url=url, headers=headers, body=body)
        return Refuses(403, "InvalidSignatureException", fault) if fault else None


def _received(segment: str, operation: str, headers: dict[str, str], body: bytes) -> tuple[Received, list[str]]:
    """A request for Converse, and what is wrong with it."""
    model_id = unquote(segment)
    fields = _object(body)
    received = Received(operation, model_id, fields or {}, headers)
    if quote(model_id, safe="") != segment or "%" in model_id:
        return received, ["The provided model identifier is invalid."]
    if headers.get("content-type") != "application/json":
        return received, ["The content type is not application/json."]
    return received, ["Malformed input request"] if fields is None else body_faults(model_id, fields, operation)


def _openai_received(headers: dict[str, str], body: bytes) -> tuple[Received, list[str]]:
    """A request in OpenAI's words, and what gpt-oss on Bedrock has against it."""
    fields = _object(body) or {}
    operation = "chat-stream" if fields.get("stream") else "chat"
    received = Received(operation, str(fields.get("model")), fields, headers)
    unknown = set(fields) - set(CompletionCreateParamsBase.__annotations__) - {"stream"}
    faults = [f"unknown parameter: {name}" for name in sorted(unknown)]
    faults += [f"{name} is not supported" for name in ("n", "logit_bias", "logprobs") if name in fields]
    if not fields.get("messages"):
        faults.append("messages: field required")
    return received, faults


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(body)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None


async def _is_set(event: asyncio.Event, within_s: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await event.wait()
    return event.is_set()


async def _read(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def _send_scenario(scenario: Scenario, operation: str, receive: Receive, send: Send) -> bool:
    """Whether the caller stayed to the end."""
    match scenario:
        case Says() if operation == "converse":
            await _send_json(send, 200, scenario.to_answer())
        case Says() if operation == "converse-stream":
            return await _send_stream(Streams(tuple(scenario.to_frames())), receive, send)
        case Says() if operation == "chat":
            await _send_json(send, 200, scenario.to_completion("openai.gpt-oss-20b-1:0"))
        case Says():
            chunks = tuple(scenario.to_chunks("openai.gpt-oss-20b-1:0"))
            return await _send_stream(Streams(chunks, content_type="text/event-stream"), receive, send)
        case Streams():
            return await _send_stream(scenario, receive, send)
        case Refuses(status, kind, message, headers):
            kind_header = {"x-amzn-errortype": f"{kind}:http://internal.amazon.com/coral/com.amazon.bedrock/"}
            await _send_json(send, status, {"message": message}, kind_header | dict(headers))
        case Raw(body, status):
            await _send_json(send, status, body)
        case Silent(cut):
            return await _cut(cut, receive, send)
    return True


async def _send_stream(stream: Streams, receive: Receive, send: Send) -> bool:
    headers = {"content-type": stream.content_type}
    if stream.promised_bytes:
        headers["content-length"] = str(stream.promised_bytes)
    await send(_start(200, headers))
    for step in stream.steps:
        if isinstance(step, Cut):
            return await _cut(step, receive, send)
        await send({"type": "http.response.body", "body": step, "more_body": True})
    if stream.promised_bytes:
        send.__self__.transport.close()  # type: ignore[attr-defined]  # what is promised is not kept
        return True
    await send({"type": "http.response.body", "body": b""})
    return True


async def _cut(cut: Cut, receive: Receive, send: Send) -> bool:
    if cut is Cut.ABORT:
        await asyncio.sleep(0.02)  # a reset throws away what the other side has not read yet
        send.__self__.transport.abort()  # type: ignore[attr-defined]  # ASGI has no word for a reset; uvicorn's send does
        return True
    while (await receive())["type"] != "http.disconnect":
        pass
    return False


async def _send_json(
    send: Send, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> None:
    data = _json(body)
    own = {"content-type": "application/json", "content-length": str(len(data))}
    await send(_start(status, own | dict(headers or {})))
    await send({"type": "http.response.body", "body": data})


def _start(status: int, headers: Mapping[str, str]) -> dict[str, Any]:
    """With the id that AWS gives to every request."""
    every = {"x-amzn-requestid": "0d5f0e4c-8b1f-4a53-9d2f-1c2f4e6a7b80"} | dict(headers)
    raw = [(name.encode(), value.encode()) for name, value in every.items()]
    return {"type": "http.response.start", "status": status, "headers": raw}
