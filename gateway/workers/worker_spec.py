"""Specifications of workers that were configured, discovered or added through the API."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from gateway.protocol.worker_address import is_http_address, is_printable_ascii, is_private_address
from gateway.workers.worker_place import WorkerPlace

Role = Literal["both", "prefill", "decode"]


class WorkersError(Exception):
    """A set of workers cannot be used. *sentences* contains one sentence for each fault."""

    def __init__(self, sentences: Sequence[str]) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = list(sentences)


@dataclass(frozen=True, slots=True)
class EventsSpec:
    """Address and topic of an engine's KV event stream."""

    endpoint: str | None = None
    """Address at which the engine publishes KV events, or None if the engine connects to the gateway."""
    replay_endpoint: str | None = None
    topic: str = ""
    ranks: int = 1
    """Number of data-parallel ranks. Each rank has its own ports."""


@dataclass(frozen=True, slots=True)
class InstanceSpec:
    """Worker instance behind a Dynamo frontend."""

    id: str
    kv_events: EventsSpec | None = None


@dataclass(frozen=True, slots=True)
class DynamoSpec:
    """Workers behind a Dynamo frontend. Without *instances*, the frontend itself lists them at /health."""

    instances: tuple[InstanceSpec, ...] = ()
    namespace: str | None = None
    component: str | None = None
    kv_events_port: int | None = None
    kv_replay_port: int | None = None
    streams: tuple[EventsSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """Specification of a worker, which is a model server or a part of one that shares its address with others."""

    url: str
    id: str
    api_key: str | None = field(default=None, repr=False)
    tier: int = 0
    role: Role = "both"
    bootstrap_port: int | None = None
    pull_port: int | None = None
    draining: bool = False
    max_connections: int | None = None
    kv_events: EventsSpec | None = None
    zone: str | None = None
    uid: str | None = None
    ranks: int = 1
    """Number of data-parallel ranks, or 0 if the engine is queried for it."""
    dynamo: DynamoSpec | None = None
    place: WorkerPlace | None = None
    """Position of the worker behind a shared address, or None if the address is not shared."""
    base: str | None = None
    """Id that all workers at the address share, or None if it is equal to `id`."""

    @property
    def base_id(self) -> str:
        """Id under which the worker was configured or discovered. Several workers can share this id."""
        return self.id if self.base is None else self.base

    @property
    def authorization(self) -> dict[str, str]:
        """HTTP header with the worker's API key, or an empty dict if there is no key."""
        return {} if self.api_key is None else {"authorization": f"Bearer {self.api_key}"}


@dataclass(frozen=True, slots=True)
class ModelWorkers:
    """Model with the specifications of its workers."""

    name: str
    upstream_model: str
    workers: tuple[WorkerSpec, ...] = ()
    is_disaggregated: bool = False
    """Whether workers of the model can be limited to prefill or to decode."""
    is_searched_for: bool = False
    """Whether workers of the model are discovered in Kubernetes or by DNS, and not only from a file."""


def is_valid(worker: WorkerSpec) -> bool:
    """Return whether *worker* has a usable address and names. This check is for workers that do not come from validated
    settings.
    """
    names = [name for name in (worker.id, worker.uid, worker.zone) if name is not None]
    is_address = is_http_address(worker.url) and not is_private_address(worker.url)
    return is_address and not worker.url.endswith("/v1") and all(map(is_printable_ascii, names))
