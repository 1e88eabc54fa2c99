"""The groups for the choice of a worker and its data."""

from pydantic import Field

from gateway.protocol.field_types import Group, Networks
from gateway.settings.rules import Count, Positive, ZmqAddress


class RoutingSettings(Group):
    lease_s: Positive = Field(
        default=2100,
        description="a reservation on a worker that is never released ends after this; not below timeouts.total_s",
    )
    max_wait_s: Positive = Field(
        default=120, description="kv_aware: a session's first request held for so long comes before all others"
    )
    max_waiting: Count = Field(default=4096, description="kv_aware: held requests; more are sent at once")
    seed: int | None = Field(default=None, description="random seed for breaking ties; null: random")


class IndexSettings(Group):
    max_bytes: Count = Field(default=256 * 2**20, description="memory for the prefixes of all models together")
    block_bytes: Count = Field(default=64, description="bytes of text in one block")
    default_worker_blocks: Count = Field(
        default=8192, description="cache size of a worker, in engine blocks, when its metrics do not report it"
    )
    default_block_size: Count = Field(
        default=16, description="tokens in one engine block when the worker's metrics do not report it"
    )


class KvEventsSettings(Group):
    bind: ZmqAddress | None = Field(
        default=None, description="address for engines that connect to the gateway, e.g. tcp://*:5557; null: none"
    )
    allowed_cidrs: Networks = Field(
        default=(),
        description="addresses of engines, e.g. 10.0.0.0/8: only they may dial bind, and only they may be named by an "
        "engine that publishes on another host than its worker's; empty: this machine's own, and no other host",
    )
    check: bool = Field(default=True, description="test each worker with tiny completions when its KV events begin")
    max_bytes: Count = Field(default=2**30, description="memory for the blocks that engines report")
