"""A worker's place among several behind one address: a data-parallel rank, or a worker of Dynamo.

The headers select it: vLLM reads ``X-data-parallel-rank`` (vllm/entrypoints/generate/base/serving.py) and so does
SGLang (sglang/srt/entrypoints/request_headers.py); Dynamo's frontend reads ``x-dynamo-worker-instance-id`` and
``x-dynamo-dp-rank``.
"""

from dataclasses import dataclass

from gateway.protocol.headers import Headers

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
class WorkerPlace:
    """Endpoints of one worker behind its address. At least one of both is given."""

    rank: int | None = None
    """Data-parallel, from 0."""
    instance: str | None = None
    """Id of a worker behind a Dynamo frontend: a number of 64 bits, decimal."""

    @property
    def name(self) -> str:
        """Suffix of the worker's id, behind the ``#``."""
        if self.instance is None:
            return str(self.rank)
        return self.instance if self.rank is None else f"{self.instance}.{self.rank}"

    @property
    def headers(self) -> Headers:
        """Headers that select this place."""
        if self.instance is None:
            return [(RANK_HEADER, b"%d" % (self.rank or 0))]
        pinned = [(INSTANCE_HEADER, self.instance.encode("ascii"))]
        return pinned if self.rank is None else [*pinned, (INSTANCE_RANK_HEADER, b"%d" % self.rank)]
