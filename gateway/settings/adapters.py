"""Settings for LoRA adapters: which models are adapters, and how workers load adapters."""

from typing import Self

from pydantic import Field, model_validator

from gateway.protocol.contradictions import Contradiction
from gateway.protocol.field_types import Group, ModelName, Token
from gateway.settings.rules import Count, NotNegative, Positive, unless_contradictory


class AdapterSettings(Group):
    of: ModelName = Field(description="name of the base model that the LoRA adapter modifies")
    name: ModelName | None = Field(
        default=None, description="name of the LoRA adapter on the workers. Null means upstream_model."
    )
    path: Token | None = Field(
        default=None,
        description="location from which workers load the LoRA adapter: a folder on the worker, or a name on a "
        "model hub",
    )
    load_on_demand: bool = Field(
        default=False,
        description="load the LoRA adapter on a worker before the worker's first request for the adapter",
    )
    max_per_worker: Count | None = Field(
        default=None,
        description="maximum number of LoRA adapters on a worker. The least recently used adapter is unloaded to "
        "make room. Null means no limit.",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = []
        if self.load_on_demand and self.path is None:
            found.append(Contradiction(("path",), "is required if load_on_demand is true"))
        if self.max_per_worker is not None and not self.load_on_demand:
            found.append(Contradiction(("max_per_worker",), "has an effect only if load_on_demand is true"))
        return unless_contradictory(self, found)


class AdaptersSettings(Group):
    load_s: NotNegative = Field(
        default=1,
        description="assumed seconds for loading a LoRA adapter, until a load is measured. Routing adds this time to "
        "the cost of workers without the adapter.",
    )
    load_timeout_s: Positive = Field(default=60, description="maximum seconds for loading a LoRA adapter on a worker")
    retry_s: Positive = Field(
        default=30,
        description="seconds after a failed load of a LoRA adapter until the gateway tries the load "
        "again on the same worker",
    )
