"""An API server of Kubernetes with EndpointSlices and pods, on a real socket, that fails in every way a real one does.

It keeps to https://kubernetes.io/docs/reference/using-api/api-concepts/: lists in pages at one version, watches that go
on from a version, bookmarks, 410 for versions that are gone. `tests/test_kubernetes_api.py` has ``kubectl`` itself read
it, so that it cannot come to share the mistakes of our own client.
"""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

Json = dict[str, Any]
Kind = Literal["EndpointSlice", "Pod", "InferencePool", "InferenceObjective", "InferenceModelRewrite"]

_GROUPS: dict[str, tuple[str, dict[str, Kind]]] = {
    "/api/v1": ("v1", {"pods": "Pod"}),
    "/apis/discovery.k8s.io/v1": ("discovery.k8s.io/v1", {"endpointslices": "EndpointSlice"}),
    "/apis/inference.networking.k8s.io/v1": ("inference.networking.k8s.io/v1", {"inferencepools": "InferencePool"}),
    "/apis/llm-d.ai/v1alpha2": (
        "llm-d.ai/v1alpha2",
        {"inferenceobjectives": "InferenceObjective", "inferencemodelrewrites": "InferenceModelRewrite"},
    ),
}


# ---- objects


def an_endpoint(
    address: str,
    pod: str | None = None,
    *,
    uid: str = "",
    ready: bool = True,
    terminating: bool = False,
    zone: str = "",
) -> Json:
    made: Json = {
        "addresses": [address],
        "conditions": {"ready": ready and not terminating, "serving": ready, "terminating": terminating},
    }
    if pod is not None:
        made["targetRef"] = {"kind": "Pod", "name": pod, "namespace": "default", "uid": uid or f"uid-of-{pod}"}
    return made | ({"zone": zone} if zone else {})


def a_slice(
    name: str,
    *endpoints: Json,
    service: str = "vllm",
    ports: Any = ({"name": "http", "port": 8000},),
    family: str = "IPv4",
) -> Json:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}},
        "addressType": family,
        "endpoints": list(endpoints) or None,  # a Go slice that is empty is null
        "ports": None if ports is None else [{"protocol": "TCP", **port} for port in ports],
    }


def a_pod(
    name: str,
    address: str | None,
    *,
    uid: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    ready: bool = True,
    deleted: bool = False,
    phase: str = "Running",
    ports: Any = ({"name": "http", "containerPort": 8000},),
) -> Json:
    metadata: Json = {"name": name, "uid": uid or f"uid-of-{name}", "labels": {"app": "vllm", **(labels or {})}}
    if annotations:
        metadata["annotations"] = dict(annotations)
    if deleted:
        metadata["deletionTimestamp"] = "2026-11-21T00:00:00Z"
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": "engine", "ports": [{"protocol": "TCP", **port} for port in ports]}]},
        "status": {
            "phase": phase,
            **({"podIP": address} if address else {}),
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def a_pool(name: str, *ports: int, labels: Mapping[str, str] | None = None, protocol: str | None = None) -> Json:
    spec: Json = {
        "selector": {"matchLabels": {"app": "vllm"} if labels is None else dict(labels)},
        "targetPorts": [{"number": port} for port in ports],
        "endpointPickerRef": {"name": "warmgate", "port": {"number": 9002}},
    }
    return {"metadata": {"name": name}, "spec": spec | ({"appProtocol": protocol} if protocol else {})}


def an_objective(name: str, priority: int | None, **spec: Any) -> Json:
    """An InferenceObjective; *spec* has the pools."""
    known = {} if priority is None else {"priority": priority}
    return {"kind": "InferenceObjective", "metadata": {"name": name}, "spec": {**known, **spec}}


def a_rewrite(name: str, *rules: Json, pool: str = "llama", created: str = "2026-01-01T00:00:00Z") -> Json:
    """An InferenceModelRewrite of *pool* with *rules*."""
    metadata = {"name": name, "creationTimestamp": created}
    spec = {"poolRef": {"group": "inference.networking.k8s.io", "name": pool}, "rules": [*rules]}
    return {"kind": "InferenceModelRewrite", "metadata": metadata, "spec": spec}


def a_rewrite_rule(names: Sequence[str], targets: Mapping[str, int | None]) -> Json:
    """A rule that replaces *names* by *targets*, which have weights."""
    shares = [
        {"modelRewrite": name, **({} if weight is None else {"weight": weight})} for name, weight in targets.items()
    ]
    matches = [{"model": {"type": "Exact", "value": name}} for name in names]
    return {**({"matches": matches} if matches else {}), "targets": shares}


# ---- the server


@dataclass(frozen=True)
class Asked:
    """One request, as it came."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]

    @property
    def watches(self) -> bool:
        return self.has("watch")

    def has(self, name: str) -> bool:
        """Whether it asks for *name*, in a spelling that Go takes for true."""
        return self.query.get(name, "") in ("1", "t", "T", "true", "TRUE", "True")


@dataclass
class _Change:
    version: int
    type: str
    kind: Kind
    object: Json


@dataclass
class Faults:
    """What goes wrong from now on; the defaults are that nothing does."""

    refused: list[tuple[int, str | None]] = field(default_factory=list)
    """Status and ``Retry-After`` of the next requests, one each."""
    hung_lists: bool = False
    """Lists are taken and never answered."""
    hung_watches: bool = False
    """Watches are answered, and nothing is ever reported, not even the end: a connection that is half open."""
    slow_list_s: float = 0.0
    lost: set[str] = field(default_factory=set)
    """Types of changes that no watch learns of."""
    cut_line: bool = False
    """The next line of a watch ends in its middle, and the connection with it."""
    expired_as: Literal["http", "line"] = "line"


class KubernetesApi:
    """What is in the cluster, and who asks. Objects are as JSON has them; versions count up with every change."""

    def __init__(self, *, token: str | None = None, bookmark_s: float = 0.1) -> None:
        """Without a *token* everybody may ask. A watch is sent a bookmark each *bookmark_s*."""
        self.token = token
        self.faults = Faults()
        self.absent: set[Kind] = set()
        """Kinds that the cluster does not know."""
        self.asked: list[Asked] = []
        self.url = ""
        self._bookmark_s = bookmark_s
        self._version = 100
        self._oldest = 0
        """Watches from before this are answered 410."""
        self._objects: dict[tuple[Kind, str, str], Json] = {}
        self._changes: list[_Change] = []
        self._changed = asyncio.Event()
        self._connections: dict[asyncio.Task[None], bool] = {}
        """Those that are open, and whether a watch runs there."""
        self._pages: dict[str, tuple[int, list[Json]]] = {}
        self._server: asyncio.Server | None = None
        self._port = 0
        self._tls: ssl.SSLContext | None = None

    # ---- what is in the cluster

    def put(self, thing: Json, namespace: str = "default") -> None:
        """Make it, or change it."""
        is_pool = "targetPorts" in thing.get("spec", {})
        kind: Kind = "EndpointSlice" if "addressType" in thing else "InferencePool" if is_pool else "Pod"
        if thing.get("kind") in {"InferenceObjective", "InferenceModelRewrite"}:
            kind = thing["kind"]
        key = (kind, namespace, thing["metadata"]["name"])
        self._version += 1
        group = next(group for group, its in _GROUPS.values() if kind in its.values())
        metadata = {"uid": f"uid-{key[2]}", **thing["metadata"], "namespace": namespace}
        metadata["resourceVersion"] = str(self._version)
        whole = {"apiVersion": group, "kind": kind, **thing, "metadata": metadata}
        self._note("MODIFIED" if key in self._objects else "ADDED", kind, whole)
        self._objects[key] = whole

    def delete(self, kind: Kind, name: str, namespace: str = "default") -> None:
        gone = self._objects.pop((kind, namespace, name))
        self._version += 1
        self._note("DELETED", kind, gone | {"metadata": gone["metadata"] | {"resourceVersion": str(self._version)}})

    def compact(self) -> None:
        """Forget what has changed so far: 410 for a watch that wants to go on from there."""
        self._version += 1
        self._oldest = self._version
        self._wake()

    def _note(self, type_: str, kind: Kind, whole: Json) -> None:
        self._changes.append(_Change(self._version, type_, kind, whole))
        self._wake()

    def _wake(self) -> None:
        """All watches look again."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    # ---- who asks

    @property
    def watchers(self) -> int:
        """Watches that are open."""
        return sum(self._connections.values())

    def count(self, *, watches: bool) -> int:
        return sum(asked.watches == watches for asked in self.asked)

    def drop_watches(self) -> None:
        """Cut the connections of all watches."""
        for connection in [connection for connection, watches in self._connections.items() if watches]:
            connection.cancel()

    async def go_away(self) -> None:
        """No one listens any more, and all connections are cut."""
        assert self._server is not None
        self._server.close()
        cut = [*self._connections]
        for connection in cut:
            connection.cancel()
        await asyncio.gather(*cut, return_exceptions=True)
        self._server = None

    async def come_back(self) -> None:
        """At the same address."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, ssl=self._tls)
        self._port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}"

    # ---- HTTP

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections[connection] = False
        try:
            while (asked := await _request(reader)) is not None:
                self.asked.append(asked)
                await self._answer(asked, writer, connection)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the task is this connection's own, and it is cancelled to cut it
        finally:
            del self._connections[connection]
            writer.transport.abort()

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter, connection: "asyncio.Task[None]") -> None:
        if self.faults.refused:
            status, retry_after = self.faults.refused.pop(0)
            _send(writer, _status(status), status, {"retry-after": retry_after} if retry_after else {})
        elif self.token is not None and asked.headers.get("authorization") != f"Bearer {self.token}":
            _send(writer, _status(401), 401)
        elif (found := _collection(asked.path)) is None or found.kind in self.absent:
            document = _document(asked.path)
            _send(writer, _status(404) if document is None else document, 404 if document is None else 200)
        elif asked.watches:
            self._connections[connection] = True
            await self._watch(asked, found, writer)
            self._connections[connection] = False
        else:
            await self._list(asked, found, writer)
        await writer.drain()

    async def _list(self, asked: Asked, found: "_Found", writer: asyncio.StreamWriter) -> None:
        if self.faults.hung_lists:
            await asyncio.Event().wait()
        if found.name is not None:
            one = self._objects.get((found.kind, found.namespace or "", found.name))
            _send(writer, one or _status(404), 200 if one else 404)
            return
        token = asked.query.get("continue")
        if token is None:
            version, items = self._version, list(self._matching(found, asked))
        elif token in self._pages:
            version, items = self._pages.pop(token)
        else:
            _send(writer, _status(410), 410)
            return
        if self.faults.slow_list_s:
            await asyncio.sleep(self.faults.slow_list_s)  # what is listed is as it was before
        limit = int(asked.query.get("limit", 0)) or len(items)
        metadata: Json = {"resourceVersion": str(version)}
        if items[limit:]:
            metadata |= {"continue": f"{version}-{len(items)}", "remainingItemCount": len(items) - limit}
            self._pages[metadata["continue"]] = (version, items[limit:])
        listed = {"apiVersion": found.group, "kind": f"{found.kind}List", "metadata": metadata, "items": items[:limit]}
        _send(writer, listed)

    def forget_pages(self) -> None:
        """Anyone who is in the middle of a list gets 410 for its next page."""
        self._pages.clear()

    def _matching(self, found: "_Found", asked: Asked) -> Iterator[Json]:
        for (kind, namespace, _), thing in self._objects.items():
            if kind == found.kind and found.namespace in (None, namespace) and _selects(asked, thing):
                yield thing

    async def _watch(self, asked: Asked, found: "_Found", writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        version = int(asked.query.get("resourceVersion") or self._version)
        if version < self._oldest and self.faults.expired_as == "http":
            _send(writer, _status(410), 410)
            return
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        ends_at = loop.time() + float(asked.query.get("timeoutSeconds", 3600))
        bookmark_at = loop.time() + self._bookmark_s
        while (now := loop.time()) < ends_at:
            if self.faults.hung_watches:
                await asyncio.Event().wait()
            if version < self._oldest:
                await self._tell(writer, {"type": "ERROR", "object": _status(410)})
                break
            changed, reached = self._changed, self._version
            lines = self._since(version, found, asked)
            for line in lines:
                await self._tell(writer, line)
            version = reached
            if now >= bookmark_at and asked.has("allowWatchBookmarks"):
                await self._tell(writer, _bookmark(found, version))
                bookmark_at = now + self._bookmark_s
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.001, min(bookmark_at, ends_at) - now)):
                    await changed.wait()
        writer.write(b"0\r\n\r\n")

    def _since(self, version: int, found: "_Found", asked: Asked) -> list[Json]:
        """What has happened since *version*, for anyone who sees only what *asked* selects."""
        lines = []
        for change in self._changes:
            if change.version <= version or change.kind != found.kind or change.type in self.faults.lost:
                continue
            if found.namespace in (None, change.object["metadata"]["namespace"]) and _selects(asked, change.object):
                lines.append({"type": change.type, "object": change.object})
        return lines

    async def _tell(self, writer: asyncio.StreamWriter, line: Json) -> None:
        text = json.dumps(line).encode() + b"\n"
        if self.faults.cut_line:
            self.faults.cut_line = False
            text = text[: len(text) // 2]
            writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(text), text))
            await writer.drain()
            raise ConnectionResetError
        writer.write(b"%x\r\n%b\r\n" % (len(text), text))
        await writer.drain()


@asynccontextmanager
async def kubernetes_api(
    *things: Json, token: str | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[KubernetesApi]:
    """One that listens, with *things* in it."""
    api = KubernetesApi(token=token)
    for thing in things:
        api.put(thing)
    api._tls = tls
    await api.come_back()
    try:
        yield api
    finally:
        if api._server is not None:
            await api.go_away()


@dataclass(frozen=True)
class _Found:
    group: str
    kind: Kind
    namespace: str | None
    name: str | None


def _collection(path: str) -> _Found | None:
    """What *path* stands for, if it is objects."""
    for prefix, (group, kinds) in _GROUPS.items():
        if path.startswith(f"{prefix}/"):
            match path.removeprefix(f"{prefix}/").split("/"):
                case ["namespaces", namespace, resource, *name] if resource in kinds and len(name) < 2:
                    return _Found(group, kinds[resource], namespace, name[0] if name else None)
                case [resource] if resource in kinds:
                    return _Found(group, kinds[resource], None, None)
    return None


def _api_group(group: str) -> Json:
    name, _, version = group.partition("/")
    preferred = {"groupVersion": group, "version": version}
    return {"name": name, "versions": [preferred], "preferredVersion": preferred}


def _document(path: str) -> Json | None:
    """What kubectl reads to find out what there is."""
    match path:
        case "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        case "/apis":
            groups = [_api_group(group) for group, _ in _GROUPS.values() if "/" in group]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case "/version":
            return {"major": "1", "minor": "33", "gitVersion": "v1.33.0"}
        case _ if path in _GROUPS:
            group_version, kinds = _GROUPS[path]
            listed = {"namespaced": True, "verbs": ["get", "list", "watch"], "singularName": ""}
            return {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": group_version,
                "resources": [{"name": resource, "kind": kind, **listed} for resource, kind in kinds.items()],
            }
    return None


def _selects(asked: Asked, thing: Json) -> bool:
    """Whether *thing* has the labels ``a=b,c!=d,e`` and the name that are asked for; nothing else is asked here."""
    field, _, name = asked.query.get("fieldSelector", "").partition("=")
    if field and (field != "metadata.name" or name != thing["metadata"]["name"]):
        return False
    selector = asked.query.get("labelSelector", "")
    labels = thing["metadata"].get("labels", {})
    for part in filter(None, selector.split(",")):
        name, sign, value = part.replace("==", "=").partition("!=" if "!=" in part else "=")
        if (name not in labels) if not sign else (labels.get(name) == value) == (sign == "!="):
            return False
    return True


def _status(code: int) -> Json:
    reasons = {410: "Expired", 401: "Unauthorized", 404: "NotFound", 429: "TooManyRequests"}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "reason": reasons.get(code, ""),
        "code": code,
    }


def _bookmark(found: _Found, version: int) -> Json:
    thing = {"kind": found.kind, "apiVersion": found.group, "metadata": {"resourceVersion": str(version)}}
    return {"type": "BOOKMARK", "object": thing | ({"endpoints": None, "ports": None} if found.kind != "Pod" else {})}


async def _request(reader: asyncio.StreamReader) -> Asked | None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    url = urlsplit(head[0].split(" ")[1])
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:]) if name}
    return Asked(unquote(url.path), dict(parse_qsl(url.query)), headers)


def _send(
    writer: asyncio.StreamWriter, body: Json, status: int = 200, headers: Mapping[str, str] | None = None
) -> None:
    text = json.dumps(body).encode()
    lines: Iterable[str] = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "content-type: application/json",
        f"content-length: {len(text)}",
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
    )
    writer.write("\r\n".join((*lines, "", "")).encode() + text)
