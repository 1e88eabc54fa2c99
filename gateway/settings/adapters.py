"""The groups of settings for LoRA adapters: which model is one, and what it may take to load it."""

from typing import Self

from pydantic import Field, model_validator

from gateway.protocol.contradictions import Contradiction
from gateway.protocol.field_types import Group, ModelName, Token
from gateway.settings.rules import Count, NotNegative, Positive, unless_contradictory


class AdapterSettings(Group):
    of: ModelName = Field(description="name of the model that the workers load, which the adapter adapts")
    name: ModelName | None = Field(default=None, description="adapter name on the workers; null: upstream_model")
    path: Token | None = Field(default=None, description="adapter source for the workers: a folder, or a name on a hub")
    load_on_demand: bool = Field(
        default=False, description="load the adapter on a worker before the first request sent there"
    )
    max_per_worker: Count | None = Field(
        default=None,
        description="maximum adapters per worker: the least recently used is unloaded first; null: no limit",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = []
        if self.load_on_demand and self.path is None:
            found.append(Contradiction(("path",), "is needed where load_on_demand is true"))
        if self.max_per_worker is not None and not self.load_on_demand:
            found.append(Contradiction(("max_per_worker",), "counts only where load_on_demand is true"))
        return unless_contradictory(self, found)


class AdaptersSettings(Group):
    load_s: NotNegative = Field(
        default=1, description="assumed adapter load time, until learned: the extra cost of a worker without it"
    )
    load_timeout_s: Positive = Field(default=60, description="time limit for a worker to load an adapter")
    retry_s: Positive = Field(default=30, description="time before retrying a worker that failed to load an adapter")
