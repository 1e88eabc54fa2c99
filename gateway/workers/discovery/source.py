"""Sources of a model's workers, beside those that the settings list.

A kind of source is a frozen dataclass that implements `SourceSpec`, beside its discovery in a module of its own. The
settings and `gateway/app/mapping/workers.py` name it; nothing else lists the kinds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from gateway.workers.discovery.discovery import Discovery
from gateway.workers.discovery.discovery_status import DiscoveryStatus
from gateway.workers.kubernetes.collection import Collection, ObjectT
from gateway.workers.kubernetes.reflector import Reflector
from gateway.workers.worker_spec import WorkerSpec

Parse = Callable[[bytes, Path], tuple[WorkerSpec, ...]]
"""Returns the workers in the content of a file. Raises WorkersError with a sentence for every fault."""
OnRefused = Callable[[Sequence[str]], None]
"""Called with the reasons, in sentences, why a set of workers is not applied."""


class DiscoveryTools(Protocol):
    """Shared parts of which discoveries are made."""

    parse: Parse
    discovery_status: DiscoveryStatus

    def reflector(self, collection: Collection[ObjectT]) -> Reflector[ObjectT]:
        """Return a new reflector of *collection*."""
        ...


class SourceSpec(Protocol):
    """One kind of source with its parameters, equal by value: a search goes on while they stay the same."""

    kind: ClassVar[str]
    """Setting of the model that names it, and label of its metrics."""

    def discovery(self, source: "WorkerSource", tools: DiscoveryTools, on_refused: OnRefused) -> Discovery:
        """Return the discovery of *source*, whose place this is. No I/O happens before it watches."""
        ...


@dataclass(frozen=True, slots=True)
class WorkerSource:
    """One place where workers of one model are found."""

    model: str
    where: SourceSpec

    @property
    def kind(self) -> str:
        return self.where.kind
