"""The groups for the choice of a worker, and what it goes by."""

from pydantic import Field

from gateway.settings.group import Group
from gateway.settings.rules import (
    Count,
    Networks,
    NotNegative,
    Positive,
    Share,
    ZmqAddress,
)


class RoutingSettings(Group):
    lease_s: Positive = Field(
        default=2100,
        description="a booking on a worker that is never released ends after this; not below timeouts.total_s",
    )
    initial_prefill_tokens_per_s: Positive = Field(
        default=2000, description="assumed prefill speed of a worker until its own is learnt; too low is the safe side"
    )
    depth_s: Positive = Field(
        default=0.05, description="kv_aware: a worker with no more backlog than this is sent the next request"
    )
    max_wait_s: Positive = Field(
        default=120, description="kv_aware: a session's first request held for so long comes before all others"
    )
    most_waiting: Count = Field(default=4096, description="kv_aware: with so many held, more are sent at once")
    other_zone_s: NotNegative = Field(
        default=0.002, description="what a worker of another zone than server.zone costs more, by cost-aware strategies"
    )
    seed: int | None = Field(default=None, description="makes random ties repeatable; null: by chance")


class IndexSettings(Group):
    max_bytes: Count = Field(default=256 * 2**20, description="memory for the prefixes of all models together")
    block_bytes: Count = Field(default=64, description="bytes of text in one block")
    default_worker_blocks: Count = Field(
        default=8192, description="cache of a worker in engine blocks when its metrics do not tell"
    )
    default_block_size: Count = Field(
        default=16, description="tokens in one engine block when the worker's metrics do not tell"
    )


class KvEventsSettings(Group):
    bind: ZmqAddress | None = Field(
        default=None, description="where engines that dial out are awaited, e.g. tcp://*:5557; null: none does"
    )
    allowed_cidrs: Networks = Field(
        default=(),
        description="addresses of engines, e.g. 10.0.0.0/8: only they may dial bind, and only they may be named by an "
        "engine that publishes on another host than its worker's; empty: this machine's own, and no other host",
    )
    check: bool = Field(
        default=True, description="try each worker out with tiny completions when its engine begins to tell"
    )
    prediction_s: Positive = Field(
        default=5, description="what was sent to a worker counts as cached for so long before its engine tells"
    )
    max_bytes: Count = Field(default=2**30, description="memory for the blocks that engines tell of")
    cpu_price: Share = Field(
        default=0.25, description="time to load a block from host memory, as a share of the time to compute it"
    )
    disk_price: Share = Field(default=0.75, description="the same for disks")
    shared_price: Share = Field(default=0.5, description="the same for stores that all workers share")
