"""Settings for the choice of workers, and for the data that the choice needs."""

from pydantic import Field

from gateway.protocol.field_types import Group, Networks
from gateway.settings.rules import Count, Positive, ZmqAddress


class RoutingSettings(Group):
    lease_s: Positive = Field(
        default=2100,
        description="seconds after which a reservation on a worker ends if it was never released. The minimum is "
        "timeouts.total_s.",
    )
    max_wait_s: Positive = Field(
        default=120,
        description="seconds after which the first request of a waiting session goes before all other waiting "
        "requests (kv_aware)",
    )
    max_waiting: Count = Field(
        default=4096,
        description="maximum number of requests that wait for a worker (kv_aware). Further requests are sent to "
        "a worker at once.",
    )
    seed: int | None = Field(
        default=None,
        description="seed of the random numbers that break ties between workers. Null means a random seed.",
    )


class IndexSettings(Group):
    max_bytes: Count = Field(
        default=256 * 2**20,
        description="maximum memory, in bytes, for the index of cached prefixes of all models together",
    )
    block_bytes: Count = Field(default=64, description="size in bytes of one block of text in the prefix index")
    default_worker_blocks: Count = Field(
        default=8192,
        description="assumed cache size of a worker, in engine blocks, if its metrics do not report the size",
    )
    default_block_size: Count = Field(
        default=16,
        description="assumed number of tokens in one engine block, if the worker's metrics report none",
    )


class KvEventsSettings(Group):
    bind: ZmqAddress | None = Field(
        default=None,
        description="ZeroMQ address on which the gateway accepts KV events from engines that connect to it, e.g. "
        "tcp://*:5557. Null means that no engine connects to the gateway.",
    )
    allowed_cidrs: Networks = Field(
        default=(),
        description="networks of the engines, e.g. 10.0.0.0/8. Only engines in these networks can connect to "
        "kv_events.bind, or publish on a host other than the host of the worker. An empty list allows connections "
        "from this machine only.",
    )
    check: bool = Field(
        default=True,
        description="test the KV events of each worker with a few tiny completions when its event stream starts",
    )
    max_bytes: Count = Field(
        default=2**30, description="maximum memory, in bytes, for the cached blocks that engines report"
    )
