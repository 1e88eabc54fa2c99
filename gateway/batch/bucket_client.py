"""Requests to a bucket of Amazon S3, or of another service with the same API.

This is the only module of the package that uses botocore, an optional dependency (``warmgate[s3]``). botocore finds the
credentials, signs the requests and repeats those that fail, see `RETRIES`. It blocks, so it runs in threads of its own:
a slow bucket takes no thread from the rest of the gateway.
"""

import asyncio
import importlib
import logging
import re
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from gateway.protocol.errors import ContentMissing, FilesUnavailable

THREADS: Final = 16
"""Maximum number of requests to the bucket at the same time."""
CONNECT_S: Final = 5.0
READ_S: Final = 20.0
"""Seconds without any byte of an answer after which it is given up."""
RETRIES: Final = 4
"""Number of attempts at a request, with a growing pause between them."""
_MISSING: Final = frozenset({"NoSuchKey", "404", "NotFound"})
_BEYOND: Final = "InvalidRange"
_ODD: Final = re.compile(r"[^A-Za-z0-9 ._-]")

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class BucketRules:
    """Bucket for the contents of files, and how to reach it."""

    bucket: str
    prefix: str = ""
    """Beginning of the names of all objects."""
    endpoint_url: str | None = None
    """URL of a service other than Amazon S3."""
    region: str | None = None
    addressing: Literal["auto", "path", "virtual"] = "auto"
    """Whether the name of the bucket is in the path or in the host name."""


class BucketAnswer:
    """Content of an object that is being received."""

    def __init__(self, client: "BucketClient", body: Any, stop: int) -> None:
        self._client = client
        self._body = body
        self.stop = stop
        """Position in the object at which the answer ends."""

    async def read(self, count: int) -> bytes:
        """Return up to *count* bytes.

        Raises:
            FilesUnavailable: if no more bytes come, although the answer has not ended.
        """
        data: bytes = await self._client.run(lambda: self._body.read(count))
        if not data:
            raise _unusable("it ended an answer too early")
        return data


class BucketClient:
    """Client for the objects of one bucket. Names are relative to the prefix of *rules*.

    All methods raise ContentMissing if an object does not exist, and FilesUnavailable if the bucket refuses a request,
    does not answer, or if there are no credentials. *keys* are the access key and the secret key, or None to find them
    as AWS's tools do.
    """

    def __init__(self, rules: BucketRules, keys: tuple[str, str] | None = None) -> None:
        self._rules = rules
        self._keys = keys
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="files-s3")
        self._made: Any = None
        self._making = threading.Lock()

    async def put(self, name: str, data: bytes) -> None:
        await self._call("put_object", name, Body=data)

    async def begin(self, name: str) -> str:
        """Begin an upload in parts, and return its id."""
        upload: str = (await self._call("create_multipart_upload", name))["UploadId"]
        return upload

    async def send_part(self, name: str, upload: str, number: int, data: bytes) -> str:
        """Send a part of an upload, and return its tag for `complete`."""
        answer = await self._call("upload_part", name, UploadId=upload, PartNumber=number, Body=data)
        tag: str = answer["ETag"]
        return tag

    async def complete(self, name: str, upload: str, tags: list[str]) -> None:
        """End an upload, after which the object exists."""
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
        await self._call("complete_multipart_upload", name, UploadId=upload, MultipartUpload={"Parts": parts})

    async def abort(self, name: str, upload: str) -> None:
        """Delete the parts of an upload."""
        await self._call("abort_multipart_upload", name, UploadId=upload, absent={"NoSuchUpload"})

    async def size(self, name: str) -> int:
        answer = await self._call("head_object", name)
        size: int = answer["ContentLength"]
        return size

    @asynccontextmanager
    async def opened(self, name: str, start: int, stop: int) -> AsyncIterator[BucketAnswer]:
        """Request the bytes of an object from *start* to *stop* - 1, or to its end."""
        answer = await self._call("get_object", name, Range=f"bytes={start}-{stop - 1}", absent={_BEYOND})
        if answer is None:
            yield BucketAnswer(self, None, start)
            return
        body = answer["Body"]
        try:
            yield BucketAnswer(self, body, start + int(answer["ContentLength"]))
        finally:
            body.close()

    async def copy(self, name: str, new_name: str) -> None:
        source = {"Bucket": self._rules.bucket, "Key": self._rules.prefix + name}
        await self._call("copy_object", new_name, CopySource=source)

    async def remove(self, name: str) -> None:
        await self._call("delete_object", name, absent=_MISSING)

    async def names(self, prefix: str, *, after: str = "") -> list[str]:
        """Return the names of up to 1,000 objects that begin with *prefix*, after the name *after*."""
        rules = self._rules
        place: dict[str, Any] = {"StartAfter": rules.prefix + after} if after else {}
        answer = await self._request("list_objects_v2", Bucket=rules.bucket, Prefix=rules.prefix + prefix, **place)
        return [each["Key"].removeprefix(rules.prefix) for each in answer.get("Contents", ())]

    async def uploads(self) -> list[tuple[str, str, float]]:
        """Return the name, the id and the time of beginning of up to 1,000 uploads that have not ended."""
        rules = self._rules
        answer = await self._request("list_multipart_uploads", Bucket=rules.bucket, Prefix=rules.prefix)
        return [
            (each["Key"].removeprefix(rules.prefix), each["UploadId"], each["Initiated"].timestamp())
            for each in answer.get("Uploads", ())
        ]

    def close(self) -> None:
        """Close all connections. Call this after the last request."""
        if self._made is not None:
            self._made.close()
        self._threads.shutdown(wait=False)

    async def run(self, call: Callable[[], _T]) -> _T:
        """Run *call* in a thread, and translate its errors."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._translated, call)

    async def _call(
        self, operation: str, name: str, *, absent: frozenset[str] | set[str] = frozenset(), **more: Any
    ) -> Any:
        """Send a request about one object. Return its answer, or None if the error is in *absent*."""
        rules = self._rules
        return await self._request(operation, absent=absent, Bucket=rules.bucket, Key=rules.prefix + name, **more)

    async def _request(self, operation: str, *, absent: frozenset[str] | set[str] = frozenset(), **more: Any) -> Any:
        return await self.run(lambda: self._sent(operation, absent, more))

    def _sent(self, operation: str, absent: frozenset[str] | set[str], more: dict[str, Any]) -> Any:
        errors = _botocore("exceptions")
        try:
            return getattr(self._client(), operation)(**more)
        except errors.ClientError as fault:
            if _code(fault) in absent:
                return None
            raise

    def _translated(self, call: Callable[[], _T]) -> _T:
        errors = _botocore("exceptions")
        try:
            return call()
        except errors.ClientError as fault:
            code = _code(fault)
            if code in _MISSING:
                text = "The bucket of files (files.s3) does not have the content of the file"
                raise ContentMissing(text, retry_after_s=5) from None
            raise _unusable(code) from None
        except (errors.BotoCoreError, OSError) as fault:
            # The cause is named by its class only: botocore's messages quote paths, roles and accounts.
            raise _unusable(type(fault).__name__) from None

    def _client(self) -> Any:
        """Return botocore's client, which takes half a second to make."""
        with self._making:
            if self._made is None:
                rules = self._rules
                config = _botocore("config").Config(
                    connect_timeout=CONNECT_S,
                    read_timeout=READ_S,
                    retries={"mode": "standard", "total_max_attempts": RETRIES},
                    max_pool_connections=THREADS,
                    s3={"addressing_style": rules.addressing},
                    # Other services than Amazon's often refuse the checksums that are optional.
                    request_checksum_calculation="when_required",
                    response_checksum_validation="when_required",
                )
                session = _botocore("session").Session()
                if self._keys is not None:
                    session.set_credentials(*self._keys)
                self._made = session.create_client(
                    "s3", region_name=rules.region, endpoint_url=rules.endpoint_url, config=config
                )
            return self._made


def _botocore(module: str) -> Any:
    try:
        return importlib.import_module(f"botocore.{module}")
    finally:
        # At DEBUG botocore logs what it signs and what STS answers, session tokens and secret keys included.
        logging.getLogger("botocore").setLevel(logging.INFO)


def _code(fault: Any) -> str:
    return str(fault.response.get("Error", {}).get("Code", ""))


def _unusable(reason: str) -> FilesUnavailable:
    reason = _ODD.sub("", reason)[:64] or "unknown error"
    return FilesUnavailable(f"The bucket of files (files.s3) cannot be used: {reason}", retry_after_s=5)
