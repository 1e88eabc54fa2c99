"""Workers as Kubernetes objects or DNS answers describe them; no I/O."""

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.workers.worker_spec import WorkerSpec


@dataclass(frozen=True, slots=True)
class Found:
    """A whole set of workers."""

    workers: tuple[WorkerSpec, ...] = ()
    sentences: tuple[str, ...] = ()
    """Objects that could not be understood or used, and the reasons."""


def url_of(host: str, port: int, scheme: str = "http") -> str:
    """Return a URL as in the settings; *host* may be an IPv6 address."""
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def one_per_address(workers: Iterable[WorkerSpec]) -> tuple[WorkerSpec, ...]:
    """Return *workers* with one for each url and each id: of two, one that does not drain, else the first.

    An endpoint may be in two slices while they are split or merged; a reused address belongs to a pod that ends and to
    one that begins. The order is that of the ids, so that equal sets are equal.
    """
    by_url: dict[str, WorkerSpec] = {}
    for worker in sorted(workers, key=lambda each: each.draining):
        by_url.setdefault(worker.url, worker)
    by_id: dict[str, WorkerSpec] = {}
    for worker in by_url.values():
        by_id.setdefault(worker.id, worker)
    return tuple(sorted(by_id.values(), key=lambda each: each.id))


def loses(before: Iterable[WorkerSpec], now: Iterable[WorkerSpec]) -> bool:
    """Whether a worker of *before* has disappeared without draining."""
    there = {(worker.url, worker.uid) for worker in now}
    return any((worker.url, worker.uid) not in there for worker in before if not worker.draining)
