"""A double of Amazon S3 on a real socket, whose faults a test chooses. It has one bucket, and checks no signature.

The real server of `make files-test` checks signatures, and has the same contract suite.
"""

import asyncio
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import md5
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from gateway.batch.bucket_client import BucketRules

BUCKET = "files"


@dataclass(frozen=True, slots=True)
class Fault:
    """What the server does instead of an answer: an error code, or ``cut``: half of a body, and then the end."""

    operation: str
    code: Literal["SlowDown", "AccessDenied", "NoSuchBucket", "InternalError", "cut"]


STATUSES = {"SlowDown": 503, "AccessDenied": 403, "NoSuchBucket": 404, "InternalError": 500, "NoSuchKey": 404}
STATUSES |= {"InvalidRange": 416, "NoSuchUpload": 404}


@dataclass(slots=True)
class Upload:
    key: str
    begun_at: float
    parts: dict[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    key: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def operation(self) -> str:
        """Method, and the parameter that makes it another operation."""
        for name in ("uploads", "uploadId", "list-type"):
            if name in self.query:
                return f"{self.method} {name}"
        return "COPY" if "x-amz-copy-source" in self.headers else self.method


@dataclass(frozen=True, slots=True)
class Answer:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class Refused(Exception):
    """Raised to answer with an error of S3."""


class FakeS3:
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, Upload] = {}
        self.faults: list[Fault] = []
        self.asked: Counter[str] = Counter()
        self.now = time.time()
        """Time at which uploads begin."""
        self.port = 0
        self.connections: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}
        self._count = 0

    @property
    def rules(self) -> BucketRules:
        url = f"http://127.0.0.1:{self.port}"
        return BucketRules(BUCKET, prefix="w/", endpoint_url=url, region="us-east-1")

    @property
    def names(self) -> list[str]:
        return sorted(key.removeprefix("w/") for key in self.objects)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections[writer] = asyncio.current_task()
        try:
            while (request := await _received(reader, writer)) is not None:
                self.asked[request.operation] += 1
                fault = self._fault(request.operation)
                is_cut = fault is not None and fault.code == "cut"
                try:
                    answer = self._answer(request) if fault is None or is_cut else _refusal(fault.code)
                except Refused as refusal:
                    answer = _refusal(str(refusal))
                _send(writer, answer, is_cut=is_cut, is_head=request.method == "HEAD")
                await writer.drain()
                if is_cut:
                    return
        except ConnectionError:
            pass
        finally:
            del self.connections[writer]
            writer.close()

    def _fault(self, operation: str) -> Fault | None:
        for fault in self.faults:
            if fault.operation == operation:
                self.faults.remove(fault)
                return fault
        return None

    def _answer(self, request: Request) -> Answer:
        match request.operation:
            case "PUT":
                answer = self._put(request.key, request.body)
            case "COPY":
                source = unquote(request.headers["x-amz-copy-source"]).removeprefix(f"{BUCKET}/")
                self._put(request.key, self._found(source))
                answer = _xml("<CopyObjectResult/>")
            case "GET" | "HEAD":
                answer = self._get(request)
            case "DELETE":
                self.objects.pop(request.key, None)
                answer = Answer(204)
            case "GET list-type":
                answer = self._list(request.query)
            case "GET uploads":
                answer = self._uploads(request.query["prefix"])
            case operation:
                answer = self._multipart(operation, request)
        return answer

    def _put(self, key: str, data: bytes) -> Answer:
        self.objects[key] = data
        return Answer(headers={"etag": _tag(data)})

    def _found(self, key: str) -> bytes:
        if key not in self.objects:
            raise Refused("NoSuchKey")
        return self.objects[key]

    def _get(self, request: Request) -> Answer:
        data = self._found(request.key)
        wanted = request.headers.get("range")
        if wanted is None:
            return Answer(body=data)
        first, last = (int(each) for each in wanted.removeprefix("bytes=").split("-"))
        if first >= len(data):
            raise Refused("InvalidRange")
        part = data[first : last + 1]
        return Answer(206, part, {"content-range": f"bytes {first}-{first + len(part) - 1}/{len(data)}"})

    def _list(self, query: dict[str, str]) -> Answer:
        after = query.get("start-after", "")
        keys = sorted(key for key in self.objects if key.startswith(query["prefix"]) and key > after)[:1000]
        rows = "".join(f"<Contents><Key>{escape(key)}</Key></Contents>" for key in keys)
        return _xml(f"<ListBucketResult>{rows}</ListBucketResult>")

    def _uploads(self, prefix: str) -> Answer:
        rows = "".join(
            f"<Upload><Key>{escape(upload.key)}</Key><UploadId>{name}</UploadId>"
            f"<Initiated>{datetime.fromtimestamp(upload.begun_at, UTC).isoformat()}</Initiated></Upload>"
            for name, upload in self.uploads.items()
            if upload.key.startswith(prefix)
        )
        return _xml(f"<ListMultipartUploadsResult>{rows}</ListMultipartUploadsResult>")

    def _multipart(self, operation: str, request: Request) -> Answer:
        if operation == "POST uploads":
            self._count += 1
            name = f"upload-{self._count}"
            self.uploads[name] = Upload(request.key, self.now)
            return _xml(f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>")
        name = request.query["uploadId"]
        if name not in self.uploads:
            raise Refused("NoSuchUpload")
        upload = self.uploads[name]
        if operation == "PUT uploadId":
            upload.parts[int(request.query["partNumber"])] = request.body
            return Answer(headers={"etag": _tag(request.body)})
        del self.uploads[name]
        if operation == "DELETE uploadId":
            return Answer(204)
        numbers = [int(each.text or "") for each in ET.fromstring(request.body).iter() if _is_number(each)]
        self._put(request.key, b"".join(upload.parts[number] for number in numbers))
        return _xml("<CompleteMultipartUploadResult/>")


@asynccontextmanager
async def fake_s3() -> AsyncIterator[FakeS3]:
    """A server in the running event loop."""
    fake = FakeS3()
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0, limit=1 << 20)
    fake.port = server.sockets[0].getsockname()[1]
    try:
        yield fake
    finally:
        server.close()
        serving = [task for task in fake.connections.values() if task is not None]
        for connection in fake.connections:
            connection.close()
        await asyncio.gather(*serving)
        await server.wait_closed()


async def _received(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, target, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
    if headers.get("expect") == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    url = urlsplit(target)
    query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
    return Request(method, unquote(url.path).removeprefix(f"/{BUCKET}").removeprefix("/"), query, headers, body)


def _send(writer: asyncio.StreamWriter, answer: Answer, *, is_cut: bool, is_head: bool) -> None:
    headers = {"content-length": str(len(answer.body)), **answer.headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    body = b"" if is_head else answer.body[: len(answer.body) // 2] if is_cut else answer.body
    writer.write(f"HTTP/1.1 {answer.status} X\r\n{lines}\r\n".encode() + body)


def _refusal(code: str) -> Answer:
    return Answer(STATUSES[code], f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())


def _xml(text: str) -> Answer:
    return Answer(body=text.encode(), headers={"content-type": "application/xml"})


def _tag(data: bytes) -> str:
    return f'"{md5(data, usedforsecurity=False).hexdigest()}"'


def _is_number(element: ET.Element) -> bool:
    return element.tag.rpartition("}")[2] == "PartNumber"
