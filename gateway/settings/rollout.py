"""Settings for routes: names that stand for several models, chosen by weight or by rules."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gateway.protocol.contradictions import Contradiction, repeated
from gateway.protocol.field_names import Place, did_you_mean
from gateway.protocol.field_types import Alias, EntityName, Group, ModelName
from gateway.settings.rules import Count, Names, NotNegative, unless_contradictory

Ability = Literal["images", "audio", "tools", "response_format", "reasoning"]


class VariantSettings(Group):
    model: ModelName = Field(
        description="name of a configured model that gets a part of the route's requests. Aliases and other "
        "routes are not allowed."
    )
    weight: NotNegative = Field(
        default=1,
        description="share of the route's requests that the model gets, relative to the weights of the other "
        "models. Use 0 for none.",
    )


class RouteRuleSettings(Group):
    model: ModelName = Field(
        description="name of the configured model for requests that match all conditions of the rule"
    )
    name: EntityName | None = Field(
        default=None, description="name of the rule in logs and metrics. Null means the name of the rule's model."
    )
    prompt_tokens_from: Count | None = Field(
        default=None, description="minimum number of prompt tokens in requests that match the rule"
    )
    prompt_tokens_below: Count | None = Field(
        default=None, description="number of prompt tokens below which requests match the rule"
    )
    max_tokens_from: Count | None = Field(
        default=None,
        description="minimum value of max_tokens, the output limit in tokens, in requests that match the rule",
    )
    requires: Annotated[tuple[Ability, ...], Field(strict=False)] = Field(
        default=(),
        description="features that a request must use to match the rule; each listed one is required: images, audio, "
        "tools, response_format or reasoning",
    )
    teams: Names | None = Field(default=None, description="teams whose requests match the rule. Null means all teams.")

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = []
        if not self.model_fields_set & {
            *("prompt_tokens_from", "prompt_tokens_below", "max_tokens_from", "requires", "teams")
        }:
            found.append(Contradiction((), "has no condition, so it would match every request"))
        least, below = self.prompt_tokens_from, self.prompt_tokens_below
        if least is not None and below is not None and below <= least:
            found.append(Contradiction(("prompt_tokens_below",), "must be greater than", ("prompt_tokens_from",)))
        return unless_contradictory(self, found)


class RouteSettings(Group):
    name: ModelName = Field(description="name of the route, which clients use like a model name")
    aliases: Annotated[tuple[Alias, ...], Field(strict=False)] = Field(
        default=(), description="additional names of the route, with the same patterns as the aliases of models"
    )
    to: Annotated[tuple[VariantSettings, ...], Field(strict=False)] = Field(
        description="models that serve the route, with their weights"
    )
    sticky: Literal["none", "key", "user", "session"] = Field(
        default="none",
        description="callers that always get the same model of the route: each key, each end user or each "
        "session. With none, every request is assigned separately.",
    )
    salt: str | None = Field(
        default=None,
        description="salt of the hash that assigns callers to models. Changing the salt reassigns all callers. Null "
        "means the name of the route.",
    )
    on_unavailable: Literal["next", "wait"] = Field(
        default="next",
        description="action if neither the workers nor the fallbacks of the assigned model can answer: next (use "
        "the next model) or wait",
    )
    rules: Annotated[tuple[RouteRuleSettings, ...], Field(strict=False)] = Field(
        default=(),
        description="rules that choose a model by properties of the request. The first rule that matches "
        "decides, before any weights.",
    )
    count: Literal["estimated", "exact"] = Field(
        default="estimated",
        description="how rules count prompt tokens: estimated (from the size of the prompt) or exact (by the "
        "tokenizer of the route's first model, if that model has one)",
    )
    variant_permits: bool = Field(
        default=False,
        description="whether a key also needs permission for the model that serves the request. With false, "
        "permission for the route is enough.",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = repeated([(("to", i, "model"), each.model) for i, each in enumerate(self.to)])
        if not any(each.weight > 0 for each in self.to):
            found.append(Contradiction(("to",), "needs at least one model with a weight above 0"))
        labels = [(("rules", i, "name"), rule.name or rule.model) for i, rule in enumerate(self.rules)]
        found += repeated(labels)
        return unless_contradictory(self, found)

    def places(self) -> Iterator[tuple[Place, str]]:
        """Yield the name of every model that the route uses, with its place in the settings of the route."""
        for i, variant in enumerate(self.to):
            yield ("to", i, "model"), variant.model
        for i, rule in enumerate(self.rules):
            yield ("rules", i, "model"), rule.model


def unknown_models(routes: Sequence[RouteSettings], models: Sequence[str]) -> list[Contradiction]:
    """Return a contradiction for each model in *routes* that is not in *models*."""
    return [
        Contradiction(("routes", i, *place), f"is {name!r}, but no model has that name{did_you_mean(name, models)}")
        for i, route in enumerate(routes)
        for place, name in route.places()
        if name not in models
    ]
