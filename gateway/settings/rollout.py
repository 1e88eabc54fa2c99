"""The groups of settings for names that stand for several models: by weight, and by what a request is like."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gateway.protocol.contradictions import Contradiction, repeated
from gateway.protocol.field_names import Place, did_you_mean
from gateway.protocol.field_types import Alias, EntityName, Group, ModelName
from gateway.settings.rules import Count, Names, NotNegative, unless_contradictory

Ability = Literal["images", "audio", "tools", "response_format", "reasoning"]


class VariantSettings(Group):
    model: ModelName = Field(description="name of a configured model; no alias, and no route")
    weight: NotNegative = Field(default=1, description="share of requests, relative to the other models; 0: none")


class RouteRuleSettings(Group):
    model: ModelName = Field(description="configured model that serves requests which match all conditions")
    name: EntityName | None = Field(default=None, description="rule name in logs and metrics; null: its model's name")
    prompt_tokens_from: Count | None = Field(default=None, description="smallest number of prompt tokens")
    prompt_tokens_below: Count | None = Field(default=None, description="prompt tokens, exclusive upper bound")
    max_tokens_from: Count | None = Field(default=None, description="smallest output limit of the request, tokens")
    requires: Annotated[tuple[Ability, ...], Field(strict=False)] = Field(
        default=(),
        description="features that it must use, all of them: images, audio, tools, response_format, reasoning",
    )
    teams: Names | None = Field(default=None, description="teams that it may come from; null: any")

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = []
        if not self.model_fields_set & {
            *("prompt_tokens_from", "prompt_tokens_below", "max_tokens_from", "requires", "teams")
        }:
            found.append(Contradiction((), "has no condition: it would match every request"))
        least, below = self.prompt_tokens_from, self.prompt_tokens_below
        if least is not None and below is not None and below <= least:
            found.append(Contradiction(("prompt_tokens_below",), "leaves nothing beside", ("prompt_tokens_from",)))
        return unless_contradictory(self, found)


class RouteSettings(Group):
    name: ModelName = Field(description="route name that clients use, like a model name")
    aliases: Annotated[tuple[Alias, ...], Field(strict=False)] = Field(
        default=(), description="further names, like a model's aliases"
    )
    to: Annotated[tuple[VariantSettings, ...], Field(strict=False)] = Field(
        description="models of the route, with weights"
    )
    sticky: Literal["none", "key", "user", "session"] = Field(
        default="none",
        description="unit that keeps its variant: key, end user or session; none: each request is assigned separately",
    )
    salt: str | None = Field(
        default=None, description="salt of the assignment: a change reassigns all callers; null: the route's name"
    )
    on_unavailable: Literal["next", "wait"] = Field(
        default="next",
        description="when neither workers nor fallbacks of its variant can answer: use the next variant, or wait",
    )
    rules: Annotated[tuple[RouteRuleSettings, ...], Field(strict=False)] = Field(
        default=(), description="the first rule that matches a request decides its model, before all weights"
    )
    count: Literal["estimated", "exact"] = Field(
        default="estimated",
        description="prompt tokens of rules: as estimated, or by the tokenizer of the first model in to if it has one",
    )
    variant_permits: bool = Field(
        default=False,
        description="a key needs permission for the serving model as well; false: permission for the route is enough",
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
        """Every model of the route, with its position."""
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
