"""Where one worker stands among several behind one address: a data-parallel rank, or a worker of Dynamo's.

The headers are those by which engines take a request there: vLLM reads ``X-data-parallel-rank``
(vllm/entrypoints/generate/base/serving.py) and so does SGLang (sglang/srt/entrypoints/request_headers.py); Dynamo's
frontend ``x-dynamo-worker-instance-id`` and ``x-dynamo-dp-rank``.
"""

from dataclasses import dataclass

from gateway.backends.backend import Headers
from gateway.settings import WorkerSettings

RANK_HEADER = b"x-data-parallel-rank"
INSTANCE_HEADER = b"x-dynamo-worker-instance-id"
INSTANCE_RANK_HEADER = b"x-dynamo-dp-rank"

PINNING = frozenset(
    {
        RANK_HEADER,
        INSTANCE_HEADER,
        INSTANCE_RANK_HEADER,
        b"x-worker-instance-id",
        b"x-dp-rank",
        b"x-dynamo-prefill-instance-id",
        b"x-dynamo-prefill-dp-rank",
        b"x-override-routed-dp-rank",
    }
)
"""Headers that say who is to answer; where the gateway chooses, a caller's own do not pass."""


@dataclass(frozen=True, slots=True)
class Place:
    """One worker's behind its address. At least one of both is said."""

    rank: int | None = None
    """Data-parallel, from 0."""
    instance: str | None = None
    """Of a worker behind a Dynamo frontend: a number of 64 bits, decimal."""

    @property
    def name(self) -> str:
        """What stands behind the ``#`` of the worker's id."""
        if self.instance is None:
            return str(self.rank)
        return self.instance if self.rank is None else f"{self.instance}.{self.rank}"

    @property
    def headers(self) -> Headers:
        """By which a request gets there."""
        if self.instance is None:
            return [(RANK_HEADER, b"%d" % (self.rank or 0))]
        pinned = [(INSTANCE_HEADER, self.instance.encode("ascii"))]
        return pinned if self.rank is None else [*pinned, (INSTANCE_RANK_HEADER, b"%d" % self.rank)]


class PlacedSettings(WorkerSettings):
    """The settings of a worker that shares its address; all that is said of the address holds for it."""

    place: Place
    base: str
    """The id of the worker as it was configured or found, which stands for all of them."""


def place_of(worker: WorkerSettings) -> Place | None:
    """None: it has its address to itself."""
    return worker.place if isinstance(worker, PlacedSettings) else None


def base_id(worker: WorkerSettings) -> str:
    """The id under which *worker* was configured or found; several may have it."""
    return worker.base if isinstance(worker, PlacedSettings) else worker.id
