"""Discovery of workers in Kubernetes, as endpoints of a Service or as pods."""

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Final, Generic, Protocol

from gateway.workers.discovery.discovery_status import DiscoveryStatus
from gateway.workers.discovery.found import Found, loses
from gateway.workers.discovery.source import WorkerSource
from gateway.workers.kubernetes.collection import ObjectT
from gateway.workers.kubernetes.reflector import CollectionSnapshot
from gateway.workers.worker_spec import WorkerSpec, is_valid

_log = logging.getLogger(__name__)

SETTLE_S: Final = 0.1
"""Seconds for which a worker can be missing before objects are listed again. Endpoints can move between slices."""


class Snapshots(Protocol[ObjectT]):
    """Copies of Kubernetes objects that are kept up to date, such as those of a `Reflector`."""

    def ask_again(self, in_s: float) -> None:
        """List all objects again after *in_s* seconds."""
        ...

    def snapshots(self) -> AsyncGenerator[CollectionSnapshot[ObjectT], None]:
        """Yield a snapshot after each change and after each failure. The iterator never ends."""
        ...


class KubernetesDiscovery(Generic[ObjectT]):
    """Discovery that watches Kubernetes objects. Implements `gateway.workers.discovery.discovery.Discovery`.

    *reflector* makes a new reflector for each watch, and *read* converts its objects into workers. The last set stays
    in use while the API server does not answer. There are no workers before its first answer.
    """

    def __init__(
        self,
        source: WorkerSource,
        reflector: Callable[[], Snapshots[ObjectT]],
        read: Callable[[Sequence[ObjectT]], Found],
        *,
        discovery_status: DiscoveryStatus,
        on_refused: Callable[[Sequence[str]], None],
        settle_s: float = SETTLE_S,
    ) -> None:
        self._source = source
        self._reflector = reflector
        self._read = read
        self._discovery_status = discovery_status
        self._on_refused = on_refused
        self._settle_s = settle_s
        self._said: tuple[str, ...] = ()

    async def watch(self) -> AsyncGenerator[tuple[WorkerSpec, ...], None]:
        """See `Discovery.watch`.

        If a worker disappears without draining first, all objects are listed again before it is removed. EndpointSlices
        are split and merged in separate updates, and removing a worker by mistake would lose its state.
        """
        reflector = self._reflector()
        last: tuple[WorkerSpec, ...] | None = None
        with self._discovery_status.of(self._source) as source_status:
            async with aclosing(reflector.snapshots()) as snapshots:
                async for snapshot in snapshots:
                    found = self._found(snapshot)
                    if snapshot.origin == "kept":
                        source_status.failed(snapshot.fault)
                    else:
                        source_status.heard(len(found.workers))
                    if snapshot.origin == "watch" and last is not None and loses(last, found.workers):
                        reflector.ask_again(self._settle_s)
                        continue
                    if self._is_set(found, last) and found.workers != last:
                        last = found.workers
                        yield last

    def _found(self, snapshot: CollectionSnapshot[ObjectT]) -> Found:
        found = self._read(snapshot.objects)
        if all(map(is_valid, found.workers)):
            return found
        return Found((), ("a Kubernetes object has no valid worker address or id.",))

    def _is_set(self, found: Found, last: tuple[WorkerSpec, ...] | None) -> bool:
        """Return whether *found* can be applied. Each fault in *found* is logged or reported once."""
        is_news = found.sentences != self._said
        self._said = found.sentences
        if (
            found.sentences and not found.workers
        ):  # there are objects, but no worker that can be asked: that is not a set
            if is_news:
                self._on_refused(found.sentences)
            return last is None
        if is_news and found.sentences:
            _log.warning("model %s: %s", self._source.model, " ".join(found.sentences))
        return True
