"""What the objects of Kubernetes, or the answers of DNS, say of workers; no I/O."""

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.settings import WorkerSettings


@dataclass(frozen=True, slots=True)
class Found:
    """All workers that there are."""

    workers: tuple[WorkerSettings, ...] = ()
    sentences: tuple[str, ...] = ()
    """What could not be understood, or not be used, and why."""


def url_of(host: str, port: int, scheme: str = "http") -> str:
    """An address as settings have it; *host* may be an IPv6 address."""
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def one_per_address(workers: Iterable[WorkerSettings]) -> tuple[WorkerSettings, ...]:
    """The *workers*, but one for each url and one for each id: of two, one that does not drain, else the first.

    An endpoint may stand in two slices while they are split or merged; an address that is used again belongs to a pod
    that ends and to one that begins. In the order of their ids, so that equal sets are equal.
    """
    by_url: dict[str, WorkerSettings] = {}
    for worker in sorted(workers, key=lambda each: each.draining):
        by_url.setdefault(worker.url, worker)
    by_id: dict[str, WorkerSettings] = {}
    for worker in by_url.values():
        by_id.setdefault(worker.id, worker)
    return tuple(sorted(by_id.values(), key=lambda each: each.id))


def loses(before: Iterable[WorkerSettings], now: Iterable[WorkerSettings]) -> bool:
    """Whether one of those *before* is not there any more, and was not about to go."""
    there = {(worker.url, worker.uid) for worker in now}
    return any((worker.url, worker.uid) not in there for worker in before if not worker.draining)
