"""The group for tuning: defaults that were found by replaying traces, which few deployments have to change."""

from pydantic import Field

from gateway.protocol.field_types import Group
from gateway.settings.rules import NotNegative, Positive, Share


class AdvancedSettings(Group):
    release_depth_s: Positive = Field(
        default=0.05, description="kv_aware: a worker with no more backlog than this gets the next request"
    )
    initial_prefill_tokens_per_s: Positive = Field(
        default=2000, description="assumed prefill speed of a worker until its own is learned; too low is the safe side"
    )
    zone_penalty_s: NotNegative = Field(
        default=0.002, description="extra cost of a worker in another zone than server.zone, for cost-aware strategies"
    )
    replica_tie_s: NotNegative = Field(
        default=0.02,
        description="largest cost difference at which workers count as equal: all replicas choose the same one",
    )
    kv_prediction_s: Positive = Field(
        default=5, description="time for which a prompt that was sent counts as cached until the engine reports it"
    )
    cpu_tier_price: Share = Field(
        default=0.25, description="time to load a block from host memory, as a share of the time to compute it"
    )
    disk_tier_price: Share = Field(
        default=0.75, description="time to load a block from disk, as a share of the time to compute it"
    )
    shared_tier_price: Share = Field(
        default=0.5,
        description="time to load a block from a store shared by all workers, as a share of the time to compute it",
    )
    first_byte_factor: Positive = Field(
        default=3, description="a stream that has not begun after this many times the predicted time is tried elsewhere"
    )
    first_byte_margin_s: NotNegative = Field(
        default=5, description="time added to first_byte_factor times the predicted time"
    )
    stall_gaps: Positive = Field(
        default=20,
        description="a stream that pauses for this many times its usual gap goes on elsewhere (continuation)",
    )
    stall_s: Positive = Field(
        default=1,
        description="shortest pause after which a stream goes on elsewhere (continuation); both limits are ten times "
        "as long while all streams of its worker pause, or while "
        "it is the only one and the engine generates tokens",
    )
