"""The group of settings for the KV event stream of one engine."""

from pydantic import Field

from gateway.protocol.field_types import Group
from gateway.settings.rules import ZmqAddress


class WorkerEventsSettings(Group):
    endpoint: ZmqAddress | None = Field(
        default=None,
        description="endpoint where the engine publishes, e.g. tcp://10.0.0.5:5557; null: it dials kv_events.bind",
    )
    replay_endpoint: ZmqAddress | None = Field(
        default=None, description="endpoint for requesting missed events; null: none, gaps remain"
    )
    topic: str = Field(
        default="",
        description="topic of the events; empty: any, or for engines that dial: kv@NAME@..., NAME being the id or host",
    )
    ranks: int = Field(
        default=1, ge=1, le=1024, description="data-parallel ranks; each uses the next consecutive ports"
    )
