"""Kinds of sources that discover workers, in addition to the configured workers.

Each kind is a frozen dataclass that implements `SourceSpec`, defined in the same module as its discovery. Only the
settings and `gateway/app/mapping/workers.py` list the kinds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from gateway.models.objectives import Objectives
from gateway.models.rewrites import Rewrites
from gateway.workers.discovery.discovery import Discovery
from gateway.workers.discovery.discovery_status import DiscoveryStatus
from gateway.workers.kubernetes.collection import Collection, ObjectT
from gateway.workers.kubernetes.reflector import Reflector
from gateway.workers.worker_spec import WorkerSpec

Parse = Callable[[bytes, Path], tuple[WorkerSpec, ...]]
"""Parser for the content of a worker file. It raises WorkersError with one message for each fault."""
OnRefused = Callable[[Sequence[str]], None]
"""Function that receives the reasons why a set of workers was not applied, as one sentence each."""


class DiscoveryTools(Protocol):
    """Shared objects that are needed to create discoveries."""

    parse: Parse
    discovery_status: DiscoveryStatus
    objectives: Objectives
    rewrites: Rewrites

    def reflector(self, collection: Collection[ObjectT]) -> Reflector[ObjectT]:
        """Return a new reflector of the Kubernetes objects in *collection*."""
        ...


class SourceSpec(Protocol):
    """Parameters of one discovery source. While two specifications are equal, the running discovery continues."""

    kind: ClassVar[str]
    """Name of the model setting that configures this kind of source. The name is also a metric label."""

    def discovery(self, source: "WorkerSource", tools: DiscoveryTools, on_refused: OnRefused) -> Discovery:
        """Return the discovery for *source*, which uses this specification. No I/O happens until it is watched."""
        ...


@dataclass(frozen=True, slots=True)
class WorkerSource:
    """Source in which the workers of one model are discovered."""

    model: str
    where: SourceSpec

    @property
    def kind(self) -> str:
        return self.where.kind
