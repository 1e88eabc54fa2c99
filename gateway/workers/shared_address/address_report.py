"""Report by an address about the workers behind it."""

from dataclasses import dataclass

from gateway.workers.worker_spec import EventsSpec


@dataclass(frozen=True, slots=True)
class Instance:
    """Worker that a Dynamo frontend reports."""

    id: str
    host: str | None = None
    """Host of the worker process, or None if the frontend does not report it."""
    stream: EventsSpec | None = None
    """Event stream in `dynamo.streams` that was matched with the worker, or None."""


@dataclass(frozen=True, slots=True)
class AddressReport:
    """Workers behind one address, according to its report: ranks of an engine, or instances of a Dynamo frontend."""

    ranks: int = 1
    instances: tuple[Instance, ...] = ()
