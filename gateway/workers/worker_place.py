"""Position of a worker behind a shared address: a data-parallel rank, or an instance behind a Dynamo frontend.

Request headers select it. vLLM (vllm/entrypoints/generate/base/serving.py) and SGLang
(sglang/srt/entrypoints/request_headers.py) read ``X-data-parallel-rank``. Dynamo's frontend reads
``x-dynamo-worker-instance-id`` and ``x-dynamo-dp-rank``.
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
"""Headers that select a worker behind an address. The gateway removes these headers from requests of callers."""


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """Position of one worker behind a shared address. At least one of *rank* and *instance* is given."""

    rank: int | None = None
    """Number of the data-parallel rank, starting at 0, or None."""
    instance: str | None = None
    """Id of the instance behind a Dynamo frontend, which is a 64-bit number in decimal digits, or None."""

    @property
    def name(self) -> str:
        """Suffix of the worker's id, which follows the ``#``."""
        if self.instance is None:
            return str(self.rank)
        return self.instance if self.rank is None else f"{self.instance}.{self.rank}"

    @property
    def headers(self) -> Headers:
        """Request headers that select the worker."""
        if self.instance is None:
            return [(RANK_HEADER, b"%d" % (self.rank or 0))]
        pinned = [(INSTANCE_HEADER, self.instance.encode("ascii"))]
        return pinned if self.rank is None else [*pinned, (INSTANCE_RANK_HEADER, b"%d" % self.rank)]
