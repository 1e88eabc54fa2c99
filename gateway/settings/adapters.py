"""The groups of settings for LoRA adapters: which model is one, and what it may take to load it."""

from typing import Self

from pydantic import Field, model_validator

from gateway.settings.group import Group
from gateway.settings.rules import Contradiction, Count, ModelName, NotNegative, Positive, Token, unless_contradictory


class AdapterSettings(Group):
    of: ModelName = Field(description="name of the model that the workers load, which the adapter adapts")
    name: ModelName | None = Field(default=None, description="as the workers list and load it; null: upstream_model")
    path: Token | None = Field(default=None, description="where the workers find it: a folder, or a name on a hub")
    load_on_demand: bool = Field(
        default=False, description="a worker that does not have it is told to load it when a request is sent there"
    )
    most_per_worker: Count | None = Field(
        default=None, description="with so many on a worker the least recently used goes before it; null: no limit"
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = []
        if self.load_on_demand and self.path is None:
            found.append(Contradiction(("path",), "is needed where load_on_demand is true"))
        if self.most_per_worker is not None and not self.load_on_demand:
            found.append(Contradiction(("most_per_worker",), "counts only where load_on_demand is true"))
        return unless_contradictory(self, found)


class AdaptersSettings(Group):
    load_s: NotNegative = Field(
        default=1, description="believed time to load one, until it is learnt: what a worker without it costs more"
    )
    load_timeout_s: Positive = Field(default=60, description="longest time that a worker may take to load one")
    retry_s: Positive = Field(
        default=30, description="a worker that failed to load one is not asked to again for so long"
    )
