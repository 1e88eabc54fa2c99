"""Create the discovery object for each configured source of workers."""

import random
from collections.abc import Callable

from gateway.models.objectives import Objectives
from gateway.models.rewrites import Rewrites
from gateway.workers.discovery.discovery import Discovery
from gateway.workers.discovery.discovery_status import DiscoveryStatus
from gateway.workers.discovery.source import OnRefused, Parse, WorkerSource
from gateway.workers.kubernetes.access import ApiAccess
from gateway.workers.kubernetes.api import Api, HttpApi
from gateway.workers.kubernetes.collection import Collection, ObjectT
from gateway.workers.kubernetes.reflector import Reflector, ReflectorIntervals


class Discoveries:
    """Factory for discoveries. Implements `DiscoveryTools`. The attribute `discovery_status` has the state of all
    sources.
    """

    def __init__(
        self,
        access: ApiAccess,
        intervals: ReflectorIntervals,
        *,
        parse: Parse,
        objectives: Objectives | None = None,
        rewrites: Rewrites | None = None,
        clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        """Create the factory. *access* and *intervals* are for the Kubernetes API client, and *parse* reads worker
        files. Discoveries write the priorities of *objectives* and the rules of *rewrites*.
        """
        self._api: Api = HttpApi(access)
        self._intervals = intervals
        self.parse = parse
        self.objectives = Objectives() if objectives is None else objectives
        self.rewrites = Rewrites(rng) if rewrites is None else rewrites
        self.discovery_status = DiscoveryStatus(clock=clock)
        self._clock = clock
        self._rng = rng

    def make(self, source: WorkerSource, on_refused: OnRefused) -> Discovery:
        """Return a discovery for *source*. It reports to *on_refused* why it cannot apply a set of workers."""
        return source.where.discovery(source, self, on_refused)

    def reflector(self, collection: Collection[ObjectT]) -> Reflector[ObjectT]:
        return Reflector(self._api, collection, self._intervals, clock=self._clock, rng=self._rng)
