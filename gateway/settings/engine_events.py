"""Settings for the KV event stream of one engine."""

from pydantic import Field

from gateway.protocol.field_types import Group
from gateway.settings.rules import ZmqAddress


class WorkerEventsSettings(Group):
    endpoint: ZmqAddress | None = Field(
        default=None,
        description="ZeroMQ endpoint where the engine publishes KV events, e.g. tcp://10.0.0.5:5557. Null means "
        "that the engine connects to kv_events.bind.",
    )
    replay_endpoint: ZmqAddress | None = Field(
        default=None,
        description="ZeroMQ endpoint for requesting missed KV events from the engine. Null means that missed "
        "events are not requested.",
    )
    topic: str = Field(
        default="",
        description="topic of the KV events. Without a topic, the gateway accepts all topics at endpoint, and the "
        "topics kv@NAME@... of engines that connect to kv_events.bind, where NAME is the worker's id or host.",
    )
    ranks: int = Field(
        default=1,
        ge=1,
        le=1024,
        description="number of data-parallel ranks that publish KV events. The ports of the ranks are consecutive.",
    )
