"""Workers as values: the configured, added and found workers of each model."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from gateway.protocol.worker_address import is_http_address, is_printable_ascii, is_private_address
from gateway.workers.worker_place import WorkerPlace

Role = Literal["both", "prefill", "decode"]


class WorkersError(Exception):
    """Workers cannot be used; *sentences* holds one sentence per fault."""

    def __init__(self, sentences: Sequence[str]) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = list(sentences)


@dataclass(frozen=True, slots=True)
class EventsSpec:
    """KV event stream of one engine."""

    endpoint: str | None = None
    """Address at which it publishes; None: it connects to the gateway."""
    replay_endpoint: str | None = None
    topic: str = ""
    ranks: int = 1
    """Data-parallel ranks, each with ports of its own."""


@dataclass(frozen=True, slots=True)
class InstanceSpec:
    """Worker behind a Dynamo frontend."""

    id: str
    kv_events: EventsSpec | None = None


@dataclass(frozen=True, slots=True)
class DynamoSpec:
    """Workers behind a Dynamo frontend. Without *instances* they are those that its /health lists."""

    instances: tuple[InstanceSpec, ...] = ()
    namespace: str | None = None
    component: str | None = None
    kv_events_port: int | None = None
    kv_replay_port: int | None = None
    streams: tuple[EventsSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """One model server, or one of several behind its address."""

    url: str
    id: str
    api_key: str | None = field(default=None, repr=False)
    tier: int = 0
    role: Role = "both"
    bootstrap_port: int | None = None
    draining: bool = False
    max_connections: int | None = None
    kv_events: EventsSpec | None = None
    zone: str | None = None
    uid: str | None = None
    ranks: int = 1
    """0: the engine is asked."""
    dynamo: DynamoSpec | None = None
    place: WorkerPlace | None = None
    """Rank behind a shared address; None: the address is not shared."""
    base: str | None = None
    """The id that stands for all workers at its address; None: its own."""

    @property
    def base_id(self) -> str:
        """The id under which it was configured or found; several workers may have it."""
        return self.id if self.base is None else self.base

    @property
    def authorization(self) -> dict[str, str]:
        """The header by which it knows the gateway."""
        return {} if self.api_key is None else {"authorization": f"Bearer {self.api_key}"}


@dataclass(frozen=True, slots=True)
class ModelWorkers:
    """One model and its workers."""

    name: str
    upstream_model: str
    workers: tuple[WorkerSpec, ...] = ()
    is_disaggregated: bool = False
    """Whether some of its workers may compute prompts only, or answers only."""
    is_searched_for: bool = False
    """Whether its workers are found by Kubernetes or DNS, not by a file alone."""


def is_valid(worker: WorkerSpec) -> bool:
    """Return whether *worker*, which did not come from checked settings, has a usable address and usable names."""
    names = [name for name in (worker.id, worker.uid, worker.zone) if name is not None]
    is_address = is_http_address(worker.url) and not is_private_address(worker.url)
    return is_address and not worker.url.endswith("/v1") and all(map(is_printable_ascii, names))
