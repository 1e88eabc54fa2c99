"""The report of an address on the workers behind it."""

from dataclasses import dataclass

from gateway.workers.worker_spec import EventsSpec


@dataclass(frozen=True, slots=True)
class Instance:
    """A worker behind a Dynamo frontend, as the frontend reports it."""

    id: str
    host: str | None = None
    """Host of its process; None: not reported."""
    stream: EventsSpec | None = None
    """The one of `dynamo.streams` that was found to be its own."""


@dataclass(frozen=True, slots=True)
class AddressReport:
    """Workers behind one address, as it reports them: ranks of an engine, or instances of a Dynamo frontend."""

    ranks: int = 1
    instances: tuple[Instance, ...] = ()
