"""Where one engine tells of its cache, as an operator has written it down."""

from pydantic import Field

from gateway.settings.group import Group
from gateway.settings.rules import ZmqAddress


class WorkerEventsSettings(Group):
    endpoint: ZmqAddress | None = Field(
        default=None, description="where it publishes, e.g. tcp://10.0.0.5:5557; null: it dials kv_events.bind"
    )
    replay_endpoint: ZmqAddress | None = Field(
        default=None, description="where it can be asked for what was missed; null: nowhere, and gaps stay"
    )
    topic: str = Field(
        default="",
        description="of its messages; empty: any, and of one that dials kv@NAME@..., NAME being its id or host",
    )
    ranks: int = Field(
        default=1, ge=1, le=1024, description="data-parallel ranks, each with ports of its own: these and the next ones"
    )
