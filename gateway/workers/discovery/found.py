"""Workers found in Kubernetes objects or DNS answers. The module does no I/O."""

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.workers.worker_spec import WorkerSpec


@dataclass(frozen=True, slots=True)
class Found:
    """Complete set of workers that one discovery source found, with the faults in its data."""

    workers: tuple[WorkerSpec, ...] = ()
    sentences: tuple[str, ...] = ()
    """Messages about Kubernetes objects that are malformed or that cannot be used."""


def url_of(host: str, port: int, scheme: str = "http") -> str:
    """Return a worker URL in the format of the settings. *host* can be an IPv6 address."""
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def one_per_address(workers: Iterable[WorkerSpec]) -> tuple[WorkerSpec, ...]:
    """Return *workers* without duplicate URLs or ids, sorted by id.

    Of two duplicates, the first that does not drain is kept, or else the first. Duplicates occur while an EndpointSlice
    is split or merged, and when a new pod reuses the address of a terminating pod.
    """
    by_url: dict[str, WorkerSpec] = {}
    for worker in sorted(workers, key=lambda each: each.draining):
        by_url.setdefault(worker.url, worker)
    by_id: dict[str, WorkerSpec] = {}
    for worker in by_url.values():
        by_id.setdefault(worker.id, worker)
    return tuple(sorted(by_id.values(), key=lambda each: each.id))


def loses(before: Iterable[WorkerSpec], now: Iterable[WorkerSpec]) -> bool:
    """Return whether a worker in *before* that was not draining is missing in *now*."""
    there = {(worker.url, worker.uid) for worker in now}
    return any((worker.url, worker.uid) not in there for worker in before if not worker.draining)
