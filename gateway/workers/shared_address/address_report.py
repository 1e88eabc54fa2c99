"""Report of an address about the workers behind it."""

from dataclasses import dataclass

from gateway.workers.worker_spec import EventsSpec


@dataclass(frozen=True, slots=True)
class Instance:
    """Worker that a Dynamo frontend reports."""

    id: str
    host: str | None = None
    """Host of the worker process, or None if it is not reported."""
    stream: EventsSpec | None = None
    """Event stream in `dynamo.streams` that was matched with this worker, or None."""


@dataclass(frozen=True, slots=True)
class AddressReport:
    """Workers behind one address as it reports them: ranks of an engine, or instances of a Dynamo frontend."""

    ranks: int = 1
    instances: tuple[Instance, ...] = ()
