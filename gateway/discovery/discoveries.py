"""Makes the discovery of each source that the settings name."""

import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from gateway.discovery.discovery import Discovery
from gateway.discovery.dns import DnsDiscovery
from gateway.discovery.endpoints import workers_of
from gateway.discovery.file import FileDiscovery
from gateway.discovery.kubernetes import KubernetesDiscovery
from gateway.discovery.pods import workers_among
from gateway.discovery.sightings import Sightings
from gateway.discovery.source import Source
from gateway.kubernetes.access import IN_CLUSTER, Access
from gateway.kubernetes.api import Api, HttpApi
from gateway.kubernetes.collection import Collection, ObjectT, pods_with, slices_of
from gateway.kubernetes.reflector import Pace, Reflector
from gateway.settings import DnsSettings, KubernetesSettings, PodsSettings, ServiceSettings


class Discoveries:
    """How fresh they are is in `sightings`. No I/O happens before one of them watches."""

    def __init__(self, kubernetes: KubernetesSettings, *, clock: Callable[[], float], rng: random.Random) -> None:
        self._api: Api = HttpApi(access_of(kubernetes))
        self._pace = Pace(relist_s=kubernetes.relist_s, watch_s=kubernetes.watch_s)
        self.sightings = Sightings(clock=clock)
        self._clock = clock
        self._rng = rng

    def of(self, source: Source, on_refused: Callable[[Sequence[str]], None]) -> Discovery:
        """The one that looks where *source* says; *on_refused* is told, in sentences, what it cannot take."""
        sightings = self.sightings
        match source.where:
            case ServiceSettings() as service:
                slices = partial(self._reflector, slices_of(service.name, service.namespace))
                read = partial(workers_of, service=service)
                return KubernetesDiscovery(source, slices, read, sightings=sightings, on_refused=on_refused)
            case PodsSettings() as wanted:
                pods = partial(self._reflector, pods_with(wanted.selector, wanted.namespace))
                among = partial(workers_among, wanted=wanted)
                return KubernetesDiscovery(source, pods, among, sightings=sightings, on_refused=on_refused)
            case DnsSettings() as name:
                return DnsDiscovery(source, name, sightings=sightings)
            case path:
                return FileDiscovery(Path(path), on_refused=on_refused)

    def _reflector(self, collection: Collection[ObjectT]) -> Reflector[ObjectT]:
        return Reflector(self._api, collection, self._pace, clock=self._clock, rng=self._rng)


def access_of(kubernetes: KubernetesSettings) -> Access:
    """Where the settings say that the API server is."""
    return Access(
        kubernetes.api_url or IN_CLUSTER,
        token_file=None if kubernetes.token_file is None else Path(kubernetes.token_file),
        ca_file=None if kubernetes.ca_file is None else Path(kubernetes.ca_file),
        namespace=kubernetes.namespace,
    )
