"""Settings for tuning. Their defaults come from replays of traces, and few deployments have to change them."""

from pydantic import Field

from gateway.protocol.field_types import Group
from gateway.settings.rules import NotNegative, Positive, Share


class AdvancedSettings(Group):
    release_depth_s: Positive = Field(
        default=0.05,
        description="backlog in seconds of work below which a worker gets the next waiting request (kv_aware)",
    )
    initial_prefill_tokens_per_s: Positive = Field(
        default=2000,
        description="assumed prefill speed of a worker, in tokens per second, until its speed is measured. If in "
        "doubt, choose a low value.",
    )
    zone_penalty_s: NotNegative = Field(
        default=0.002,
        description="extra cost, in seconds, of a worker outside server.zone (prefix_aware, kv_aware)",
    )
    replica_tie_s: NotNegative = Field(
        default=0.02,
        description="maximum cost difference, in seconds, at which workers count as equal, so that all gateways "
        "choose the same worker",
    )
    kv_prediction_s: Positive = Field(
        default=5,
        description="seconds for which a prompt counts as cached after it was sent, until the engine reports the "
        "prompt's blocks",
    )
    cpu_tier_price: Share = Field(
        default=0.25,
        description="assumed time to load a cached block from host memory, as a share of the time to compute it, until "
        "loads have been measured",
    )
    disk_tier_price: Share = Field(
        default=0.75,
        description="assumed time to load a cached block from disk, as a share of the time to compute it, until loads "
        "have been measured",
    )
    shared_tier_price: Share = Field(
        default=0.5,
        description="assumed time to load a cached block from a store shared by all workers, as a share of the time to "
        "compute it, until loads have been measured",
    )
    peer_tier_price: Share = Field(
        default=0.25,
        description="assumed time to pull a cached block from another worker, as a share of the time to compute it, "
        "until pulls have been measured",
    )
    pull_latency_s: NotNegative = Field(
        default=0.03,
        description="seconds that every pull takes in addition to the time for its blocks",
    )
    first_byte_factor: Positive = Field(
        default=3,
        description="multiple of the predicted time to first byte after which a stream that has not begun is "
        "tried on another worker",
    )
    first_byte_margin_s: NotNegative = Field(
        default=5, description="seconds added to first_byte_factor times the predicted time to first byte"
    )
    stall_gaps: Positive = Field(
        default=20,
        description="multiple of the usual gap between tokens after which a paused stream is continued on "
        "another worker (continuation)",
    )
    stall_s: Positive = Field(
        default=1,
        description="minimum pause, in seconds, after which a stream is continued on another worker (continuation). "
        "Both stall_s and stall_gaps are multiplied by ten while all streams of the worker pause, or while the "
        "worker has a single stream and its engine generates tokens.",
    )
