"""Settings for a worker that is a Dynamo frontend. Through it, requests are pinned to individual Dynamo workers."""

import re
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from gateway.protocol.contradictions import Contradiction, repeated
from gateway.protocol.field_types import Group, Token
from gateway.settings.engine_events import WorkerEventsSettings
from gateway.settings.rules import TEXT_OR_NUMBER, unless_contradictory

_MOST = 2**64


def _as_text(value: Any) -> Any:
    """Return *value* as text if it is an integer. Tools such as Helm read large integers as floats, but leave text
    unchanged.
    """
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _check_instance(value: str) -> str:
    if not re.fullmatch(r"0|[1-9][0-9]{0,19}", value) or int(value) >= _MOST:
        raise PydanticCustomError("rule", "{allowed}", {"allowed": "the value must be an integer from 0 to 2**64 - 1"})
    return value


InstanceId = Annotated[str, BeforeValidator(_as_text), AfterValidator(_check_instance), WithJsonSchema(TEXT_OR_NUMBER)]
"""Dynamo instance id, which is an unsigned 64-bit integer in decimal digits."""


class InstanceSettings(Group):
    id: InstanceId = Field(
        description="instance id of the Dynamo worker, as in /health of the frontend. Quote the id in Helm values."
    )
    kv_events: WorkerEventsSettings | None = Field(
        default=None, description="KV event stream of the Dynamo worker's engine. Null means no stream."
    )


class DynamoSettings(Group):
    instances: Annotated[tuple[InstanceSettings, ...], Field(strict=False)] = Field(
        default=(),
        description="workers behind the Dynamo frontend. If the list is empty, the gateway follows the workers "
        "in /health of the frontend.",
    )
    namespace: Token | None = Field(
        default=None, description="Dynamo namespace of the workers to select from /health. Null means any namespace."
    )
    component: Token | None = Field(
        default=None,
        description="Dynamo component of the workers to select from /health, e.g. backend. Null means any component.",
    )
    kv_events_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="port on which each Dynamo worker publishes KV events, on its own host. Null means that the "
        "workers publish no KV events.",
    )
    kv_replay_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="port for requesting missed KV events from each Dynamo worker. Null means that missed events "
        "are not requested.",
    )

    streams: Annotated[tuple[WorkerEventsSettings, ...], Field(strict=False)] = Field(
        default=(),
        description="KV event endpoints of several Dynamo workers on one host. The gateway finds the worker of "
        "each endpoint with a tiny completion.",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = repeated([(("instances", i, "id"), each.id) for i, each in enumerate(self.instances)])
        if self.instances:
            text = "cannot be combined with dynamo.instances, which lists the workers itself"
            given = {name: getattr(self, name) for name in ("namespace", "component", "kv_events_port")}
            found += [Contradiction((name,), text) for name, value in given.items() if value is not None]
        if self.streams and (self.instances or self.kv_events_port is not None):
            other = "instances" if self.instances else "kv_events_port"
            found.append(Contradiction(("streams",), "cannot be combined with", (other,)))
        found += [
            Contradiction(("streams", i, "endpoint"), "is required, because the gateway connects to it")
            for i, stream in enumerate(self.streams)
            if stream.endpoint is None
        ]
        if self.kv_replay_port is not None and self.kv_events_port is None:
            found.append(Contradiction(("kv_replay_port",), "requires dynamo.kv_events_port"))
        return unless_contradictory(self, found)
