"""The groups of settings for names that stand for several models: by weight, and by what a request is like."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gateway.settings.group import Group
from gateway.settings.names import Place, did_you_mean
from gateway.settings.rules import (
    Alias,
    Contradiction,
    Count,
    EntityName,
    ModelName,
    Names,
    NotNegative,
    repeated,
    unless_contradictory,
)

Ability = Literal["images", "audio", "tools", "response_format", "reasoning"]


class VariantSettings(Group):
    model: ModelName = Field(description="name of a configured model; no alias, and no route")
    weight: NotNegative = Field(default=1, description="its share, beside those of the others; 0: it gets nothing")


class RouteRuleSettings(Group):
    model: ModelName = Field(description="name of the configured model that serves what all of this is true of")
    name: EntityName | None = Field(default=None, description="in logs and metrics; null: the name of its model")
    prompt_tokens_from: Count | None = Field(default=None, description="its prompt has so many tokens or more")
    prompt_tokens_below: Count | None = Field(default=None, description="its prompt has fewer tokens")
    max_tokens_from: Count | None = Field(default=None, description="it allows so many tokens of output or more")
    asks: Annotated[tuple[Ability, ...], Field(strict=False)] = Field(
        default=(), description="it needs all of these: images, audio, tools, response_format, reasoning"
    )
    teams: Names | None = Field(default=None, description="it is of one of these teams; null: of anybody")

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = []
        if not self.model_fields_set & {
            *("prompt_tokens_from", "prompt_tokens_below", "max_tokens_from", "asks", "teams")
        }:
            found.append(Contradiction((), "asks for nothing: it would be true of every request"))
        least, below = self.prompt_tokens_from, self.prompt_tokens_below
        if least is not None and below is not None and below <= least:
            found.append(Contradiction(("prompt_tokens_below",), "leaves nothing beside", ("prompt_tokens_from",)))
        return unless_contradictory(self, found)


class RouteSettings(Group):
    name: ModelName = Field(description="name under which clients ask, as for a model")
    aliases: Annotated[tuple[Alias, ...], Field(strict=False)] = Field(
        default=(), description="more names, as those of a model"
    )
    to: Annotated[tuple[VariantSettings, ...], Field(strict=False)] = Field(
        description="the models that it stands for, by weight"
    )
    sticky: Literal["none", "key", "user", "session"] = Field(
        default="none", description="who keeps its variant: each key, end user or session; none: requests are dealt"
    )
    salt: str | None = Field(
        default=None, description="another one deals those who keep their variant anew; null: the route's name"
    )
    when_not_ready: Literal["next", "wait"] = Field(
        default="next", description="where nobody could answer for its variant, a request goes to the next, or waits"
    )
    rules: Annotated[tuple[RouteRuleSettings, ...], Field(strict=False)] = Field(
        default=(), description="the first that is true of a request decides its model, before all weights"
    )
    count: Literal["estimated", "exact"] = Field(
        default="estimated",
        description="prompt tokens of rules: as estimated, or by the tokenizer of the first model in to if it has one",
    )
    variant_permits: bool = Field(
        default=False,
        description="a key needs leave for the model that serves as well; false: leave for the route is enough",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = repeated([(("to", i, "model"), each.model) for i, each in enumerate(self.to)])
        if not any(each.weight > 0 for each in self.to):
            found.append(Contradiction(("to",), "needs a model of a weight above 0"))
        labels = [(("rules", i, "name"), rule.name or rule.model) for i, rule in enumerate(self.rules)]
        found += repeated(labels)
        return unless_contradictory(self, found)

    def places(self) -> Iterator[tuple[Place, str]]:
        """Every model that it names, with its place in the route."""
        for i, variant in enumerate(self.to):
            yield ("to", i, "model"), variant.model
        for i, rule in enumerate(self.rules):
            yield ("rules", i, "model"), rule.model


def unknown_models(routes: Sequence[RouteSettings], models: Sequence[str]) -> list[Contradiction]:
    """One contradiction for each model of *routes* that is not among *models*."""
    return [
        Contradiction(("routes", i, *place), f"is {name!r}; no model has that name{did_you_mean(name, models)}")
        for i, route in enumerate(routes)
        for place, name in route.places()
        if name not in models
    ]
