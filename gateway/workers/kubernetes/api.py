"""Client for the list and watch calls of the Kubernetes API.

1. Every request uses a new connection, so a half-open connection affects only one request.
2. Every request reads the credentials again, in a thread.
3. Every wait is bounded. The maximum silence of a watch is an argument, because the API server sends a bookmark about
   every minute (https://kubernetes.io/docs/reference/using-api/api-concepts/#watch-bookmarks).
"""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, Protocol, TypeVar, get_args

import httpx
import msgspec

from gateway.backends.http_client import HttpClient
from gateway.workers.kubernetes.access import ApiAccess, Credentials
from gateway.workers.kubernetes.collection import Collection, ObjectT
from gateway.workers.kubernetes.kubernetes_error import KubernetesError, VersionExpired
from gateway.workers.kubernetes.objects import Metadata

PAGE: Final = 500
"""Maximum number of objects per response page, equal to the value in client-go."""
CONNECT_S: Final = 2.0
LIST_S: Final = 10.0
"""Maximum seconds to wait for one page of a response."""
LONGEST_LINE: Final = 16 * 2**20
"""Maximum length in bytes of one line of a watch. The largest object in etcd has about 1.5 MiB."""

DecodedT = TypeVar("DecodedT")
Change = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
_CHANGES: Final = get_args(Change)


@dataclass(frozen=True, slots=True)
class ObjectList(Generic[ObjectT]):
    """Complete list of the objects in a collection at the resource version *version*."""

    objects: tuple[ObjectT, ...]
    version: str


@dataclass(frozen=True, slots=True)
class ObjectChange(Generic[ObjectT]):
    """Change that a watch reported. In a bookmark, *object* is None."""

    change: Change
    object: ObjectT | None


class Api(Protocol):
    """Interface to the list and watch calls of the Kubernetes API."""

    async def list_all(self, collection: Collection[ObjectT]) -> ObjectList[ObjectT]:
        """Return all objects in *collection*. Raises KubernetesError if the API server fails to list them."""
        ...

    def watch(
        self, collection: Collection[ObjectT], version: str, *, lasts_s: float, silence_s: float
    ) -> AsyncGenerator[list[ObjectChange[ObjectT]], None]:
        """Yield lists of changes since the resource version *version*. The watch ends after at most *lasts_s* seconds.

        Changes that arrive together are yielded in one list.

        Raises:
            VersionExpired: if the API server no longer knows the changes since *version*.
            KubernetesError: if the connection failed, or nothing arrived for *silence_s*.
        """
        ...


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    next: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: float | None = None


class _Status(msgspec.Struct):
    code: int = 0
    reason: str = ""
    details: _Details | None = None


class _Bookmarked(msgspec.Struct):
    metadata: Metadata


class HttpApi:
    """Client for the API server that *access* describes. Implements `Api`."""

    def __init__(
        self, access: ApiAccess, *, page: int = PAGE, connect_s: float = CONNECT_S, list_s: float = LIST_S
    ) -> None:
        self._access = access
        self._page = page
        self._connect_s = connect_s
        self._list_s = list_s

    async def list_all(self, collection: Collection[ObjectT]) -> ObjectList[ObjectT]:
        """Return all objects (see `Api.list_all`). Each page can take *list_s*. All pages show the same version."""
        found: list[ObjectT] = []
        query: dict[str, Any] = {**collection.query(), "limit": self._page}
        async with self._connected(collection) as (client, path):
            while True:
                page = await self._page_of(client, path, query)
                found += [_decoded(raw, collection.kind) for raw in page.items or ()]
                if not page.metadata.next:
                    return ObjectList(tuple(found), page.metadata.resource_version)
                query["continue"] = page.metadata.next

    async def watch(
        self, collection: Collection[ObjectT], version: str, *, lasts_s: float, silence_s: float
    ) -> AsyncGenerator[list[ObjectChange[ObjectT]], None]:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + lasts_s
        query = {
            **collection.query(),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": max(1, math.ceil(lasts_s)),
        }
        async with (
            self._connected(collection) as (client, path),
            self._opened(client, path, query, min(lasts_s, self._list_s)) as response,
            aclosing(_lines(response)) as batches,
        ):
            while True:
                left_s = ends_at - loop.time()
                try:
                    # Cancelling closes the connection: after either end there is no more to come.
                    async with asyncio.timeout(min(left_s, silence_s)):
                        lines = await anext(batches, None)
                except TimeoutError:
                    if left_s <= silence_s:
                        return
                    raise KubernetesError(f"the Kubernetes watch was silent for {silence_s:g} s") from None
                except httpx.HTTPError as fault:
                    raise _broken(fault) from None
                if lines is None:
                    return
                yield [_event(line, collection.kind) for line in lines]

    @asynccontextmanager
    async def _connected(self, collection: Collection[ObjectT]) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
        credentials = await asyncio.to_thread(self._access.read)
        namespace = collection.namespace or credentials.namespace
        if namespace is None:
            raise KubernetesError("the Kubernetes namespace is unknown; set kubernetes.namespace")
        async with self._client(credentials) as client:
            yield client, collection.path(namespace)

    def _client(self, credentials: Credentials) -> httpx.AsyncClient:
        return HttpClient(
            base_url=self._access.url,
            headers={"accept": "application/json", "user-agent": "warmgate", **credentials.headers},
            verify=credentials.tls or False,
            timeout=httpx.Timeout(self._list_s, connect=self._connect_s),
            trust_env=False,  # a proxy for the outside does not lead into the cluster
        )

    async def _page_of(self, client: httpx.AsyncClient, path: str, query: Mapping[str, Any]) -> _Page:
        try:
            async with asyncio.timeout(self._list_s):
                response = await client.get(path, params=query)
        except TimeoutError:
            raise KubernetesError(f"listing Kubernetes objects took longer than {self._list_s:g} s") from None
        except httpx.HTTPError as fault:
            raise _broken(fault) from None
        if response.status_code != httpx.codes.OK:
            raise _refused(response.status_code, response.headers)
        return _decoded(response.content, _Page)

    @asynccontextmanager
    async def _opened(
        self, client: httpx.AsyncClient, path: str, query: Mapping[str, Any], within_s: float
    ) -> AsyncIterator[httpx.Response]:
        timeout = httpx.Timeout(None, connect=self._connect_s)
        request = client.build_request("GET", path, params=query, timeout=timeout)
        try:
            async with asyncio.timeout(within_s):
                response = await client.send(request, stream=True)
        except TimeoutError:
            raise KubernetesError(f"a Kubernetes watch request was not answered within {within_s:g} s") from None
        except httpx.HTTPError as fault:
            raise _broken(fault) from None
        try:
            if response.status_code != httpx.codes.OK:
                raise _refused(response.status_code, response.headers)
            yield response
        finally:
            await response.aclose()


async def _lines(response: httpx.Response) -> AsyncGenerator[list[bytes], None]:
    """Yield complete lines, grouped by network read. An incomplete last line is dropped, because the caller will list
    all objects again.
    """
    rest = b""
    async for piece in response.aiter_bytes():
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > LONGEST_LINE:
            raise KubernetesError(f"a line of the Kubernetes watch is longer than {LONGEST_LINE} bytes")
        lines = [line for line in lines if line.strip()]
        if lines:
            yield lines


def _event(line: bytes, kind: type[ObjectT]) -> ObjectChange[ObjectT]:
    read = _decoded(line, _Line)
    if read.type == "ERROR":
        status = _decoded(read.object, _Status)
        if status.code == httpx.codes.GONE:
            raise VersionExpired
        retry_after_s = None if status.details is None else status.details.retry_after_seconds
        raise KubernetesError(
            f"the Kubernetes watch ended with status {status.code}", status=status.code, retry_after_s=retry_after_s
        )
    if read.type == "BOOKMARK":
        _decoded(read.object, _Bookmarked)
        return ObjectChange("BOOKMARK", None)
    for change in _CHANGES:
        if change == read.type:
            return ObjectChange(change, _decoded(read.object, kind))
    raise KubernetesError("the Kubernetes watch sent a change of an unknown type")


def _decoded(data: bytes | msgspec.Raw, kind: type[DecodedT]) -> DecodedT:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise KubernetesError("the response of the Kubernetes API is malformed") from None


def _refused(status: int, headers: Mapping[str, str]) -> KubernetesError:
    if status == httpx.codes.GONE:
        return VersionExpired()
    after = headers.get("retry-after", "")
    return KubernetesError(
        f"the API server returned status {status}",
        status=status,
        retry_after_s=float(after) if after.isdecimal() else None,
    )


def _broken(fault: httpx.HTTPError) -> KubernetesError:
    # The name only: texts of httpx may hold addresses with credentials.
    return KubernetesError(f"the connection failed ({type(fault).__name__})")
