"""Workers that are found in Kubernetes, as endpoints of a Service or as pods."""

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Final, Generic

from pydantic import ValidationError

from gateway.discovery.found import Found, loses
from gateway.discovery.sightings import Sightings
from gateway.discovery.source import Source
from gateway.kubernetes.collection import ObjectT
from gateway.kubernetes.reflector import Reflector, Snapshot
from gateway.settings import WorkerSettings

_log = logging.getLogger(__name__)

SETTLE_S: Final = 0.1
"""How long a worker that vanished without a word may be between two slices before everything is listed anew."""


class KubernetesDiscovery(Generic[ObjectT]):
    """Follows what *reflector* tells; implements `gateway.discovery.discovery.Discovery`.

    *reflector* makes one for each watch, *read* says which workers the objects are. While the API server is away the
    last set stays; before it was heard once there are none.
    """

    def __init__(
        self,
        source: Source,
        reflector: Callable[[], Reflector[ObjectT]],
        read: Callable[[Sequence[ObjectT]], Found],
        *,
        sightings: Sightings,
        on_refused: Callable[[Sequence[str]], None],
        settle_s: float = SETTLE_S,
    ) -> None:
        self._source = source
        self._reflector = reflector
        self._read = read
        self._sightings = sightings
        self._on_refused = on_refused
        self._settle_s = settle_s
        self._said: tuple[str, ...] = ()

    async def watch(self) -> AsyncGenerator[tuple[WorkerSettings, ...], None]:
        """See `Discovery.watch`.

        A worker that vanishes without having been about to go is looked for once more, in a list: slices are split and
        merged one after the other, and a worker that is taken out and put back has lost all that was known of it.
        """
        reflector = self._reflector()
        last: tuple[WorkerSettings, ...] | None = None
        with self._sightings.of(self._source) as sighting:
            async with aclosing(reflector.snapshots()) as snapshots:
                async for snapshot in snapshots:
                    found = self._found(snapshot)
                    if snapshot.origin == "kept":
                        sighting.failed(snapshot.fault)
                    else:
                        sighting.heard(len(found.workers))
                    if snapshot.origin == "watch" and last is not None and loses(last, found.workers):
                        reflector.ask_again(self._settle_s)
                        continue
                    if self._is_set(found, last) and found.workers != last:
                        last = found.workers
                        yield last

    def _found(self, snapshot: Snapshot[ObjectT]) -> Found:
        try:
            return self._read(snapshot.objects)
        except ValidationError:
            return Found((), ("an object of Kubernetes makes no worker.",))

    def _is_set(self, found: Found, last: tuple[WorkerSettings, ...] | None) -> bool:
        """Whether *found* is to be taken; tells of what is wrong with it, once."""
        is_news = found.sentences != self._said
        self._said = found.sentences
        if found.sentences and not found.workers:  # there is somebody, and nobody who can be asked: that is no set
            if is_news:
                self._on_refused(found.sentences)
            return last is None
        if is_news and found.sentences:
            _log.warning("model %s: %s", self._source.model, " ".join(found.sentences))
        return True
