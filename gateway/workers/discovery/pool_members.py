"""Snapshots of an InferencePool together with the pods that the pool selects, and with objects of llm-d about it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Generic

from gateway.workers.discovery.source import DiscoveryTools
from gateway.workers.kubernetes.collection import Collection, ObjectT, pods_with, pool_named
from gateway.workers.kubernetes.objects import InferenceModelRewrite, InferenceObjective, InferencePool, Pod
from gateway.workers.kubernetes.reflector import CollectionSnapshot

_log = logging.getLogger(__name__)

PolicyCollection = Collection[InferenceObjective] | Collection[InferenceModelRewrite]
PoolObject = InferencePool | Pod | InferenceObjective | InferenceModelRewrite


class PoolMembers:
    """The InferencePool *name* in *namespace*, and the pods with the labels of its selector.

    While the pool does not exist, snapshots have no objects. While the pool has an empty selector, snapshots have no
    pods, because a pool never selects all pods of its namespace. Snapshots also contain the objects of the collections
    *policies*. Workers never wait for them.
    """

    def __init__(
        self, tools: DiscoveryTools, name: str, namespace: str | None, *, policies: Sequence[PolicyCollection] = ()
    ) -> None:
        self._tools = tools
        self._name = name
        self._namespace = namespace
        self._pool = _Followed(tools, pool_named(name, namespace))
        self._pods: _Followed[Pod] | None = None
        self._policies: list[_Followed[Any]] = [_Followed(tools, each) for each in policies]
        self._faults: dict[str, str] = {}
        self._latest: _Followed[InferencePool] | _Followed[Pod] = self._pool
        """Collection whose snapshot arrived last."""
        self._is_missing = False

    def ask_again(self, in_s: float) -> None:
        """List the collection whose snapshot arrived last again after *in_s* seconds."""
        self._latest.reflector.ask_again(in_s)

    async def snapshots(self) -> AsyncGenerator[CollectionSnapshot[PoolObject], None]:
        """Yield a snapshot of the pool and its pods after each change and after each failure. The iterator never ends.

        The caller must close the iterator.
        """
        try:
            while True:
                await self._wait()
                policy = next((each for each in self._policies if each.has_arrived), None)
                if policy is not None:
                    self._take_policy(policy)
                elif self._pods is not None and self._pods.has_arrived:
                    self._latest = self._pods
                    self._pods.take()
                else:
                    self._latest = self._pool
                    self._pool.take()
                    await self._select_pods()
                snapshot = self._snapshot()
                if snapshot is not None:
                    yield snapshot
        finally:
            await self._pool.close()
            if self._pods is not None:
                await self._pods.close()
            for policy in self._policies:
                await policy.close()

    async def _wait(self) -> None:
        """Wait until a snapshot has arrived."""
        waiting: list[asyncio.Future[Any]] = [self._pool.next()]
        if self._pods is not None:
            waiting.append(self._pods.next())
        waiting += [policy.next() for policy in self._policies]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)

    def _take_policy(self, policy: "_Followed[Any]") -> None:
        """Take the snapshot of *policy*. If its objects cannot be read, the last ones stay, and the log says why."""
        policy.take()
        assert policy.latest is not None
        kind, fault = policy.collection.kind.__name__, policy.latest.fault
        if fault and fault != self._faults.get(kind):
            _log.warning("the %ss of the InferencePool %s cannot be read: %s", kind, self._name, fault)
        self._faults[kind] = fault

    async def _select_pods(self) -> None:
        """Follow the pods that the pool selects now."""
        latest = self._pool.latest
        is_missing = latest is not None and latest.origin != "kept" and not latest.objects
        if is_missing and not self._is_missing:
            _log.warning("the InferencePool %s does not exist", self._name)
        self._is_missing = is_missing
        selector = selector_of(latest.objects[0]) if latest is not None and latest.objects else ""
        if self._pods is not None and selector != self._pods.collection.selector:
            await self._pods.close()
            self._pods = None
        if self._pods is None and selector:
            self._pods = _Followed(self._tools, pods_with(selector, self._namespace))

    def _snapshot(self) -> CollectionSnapshot[PoolObject] | None:
        """Return the pool and its pods, or None if the pods are not known yet.

        If the API server did not answer for one of the two collections, the snapshot reports this fault.
        """
        pool, pods, latest = self._pool.latest, None if self._pods is None else self._pods.latest, self._latest.latest
        if pool is None or latest is None or (self._pods is not None and pods is None):
            return None
        objects: tuple[PoolObject, ...] = pool.objects if pods is None else (*pool.objects, *pods.objects)
        for policy in self._policies:
            if policy.latest is not None:
                objects = (*objects, *policy.latest.objects)
        for each in (pool, pods):
            if each is not None and each.origin == "kept":
                return CollectionSnapshot(objects, "kept", each.fault)
        return CollectionSnapshot(objects, latest.origin)


class _Followed(Generic[ObjectT]):
    """Collection of Kubernetes objects with its latest snapshot."""

    def __init__(self, tools: DiscoveryTools, collection: Collection[ObjectT]) -> None:
        self.collection = collection
        self.reflector = tools.reflector(collection)
        self.latest: CollectionSnapshot[ObjectT] | None = None
        self._snapshots = self.reflector.snapshots()
        self._next: asyncio.Future[CollectionSnapshot[ObjectT]] | None = None

    @property
    def has_arrived(self) -> bool:
        return self._next is not None and self._next.done()

    def next(self) -> "asyncio.Future[CollectionSnapshot[ObjectT]]":
        """Return the future of the next snapshot."""
        if self._next is None:
            self._next = asyncio.ensure_future(anext(self._snapshots))  # noqa: TID251  # `close` ends it
        return self._next

    def take(self) -> None:
        """Make the snapshot that has arrived the latest one."""
        assert self._next is not None
        self.latest, self._next = self._next.result(), None

    async def close(self) -> None:
        """End the watch and close its connection."""
        if self._next is not None:
            self._next.cancel()
            await asyncio.wait([self._next])
        await self._snapshots.aclose()


def selector_of(pool: InferencePool) -> str:
    """Return the label selector of the pods of *pool*, or an empty string if the pool selects no pods."""
    return ",".join(f"{name}={value}" for name, value in sorted((pool.spec.selector.match_labels or {}).items()))
