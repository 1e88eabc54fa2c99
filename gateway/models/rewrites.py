"""Model rewrites of llm-d: names in requests that stand for one of several models, chosen by weight."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.protocol.tool_loop import tool_loop


@dataclass(frozen=True, slots=True)
class RewriteRule:
    """Models that replace a name."""

    targets: tuple[str, ...]
    weights: tuple[int, ...]
    """Weight of each target, above 0."""
    created: str = ""
    """Time at which the rule was created. If two models have rules for one name, the older one applies."""


@dataclass(frozen=True, slots=True)
class RewriteRules:
    """Rules that apply to the requests of one model."""

    by_name: Mapping[str, RewriteRule] = field(default_factory=dict)
    """Rule for each name in requests."""
    others: RewriteRule | None = None
    """Rule for all other names of the model."""

    def rule(self, name: str) -> RewriteRule | None:
        return self.by_name.get(name, self.others)


class ModelRewrites:
    """Rules of one model, which can change."""

    __slots__ = ("_rng", "rules")

    def __init__(self, rng: random.Random) -> None:
        self._rng: Final = rng
        self.rules = RewriteRules()

    def target(self, rule: RewriteRule, prompt: bytes = b"") -> str:
        """Return one of the models of *rule*, with a probability in proportion to its weight.

        All requests of one tool loop get the same model. *prompt* is the rendered prompt of the request.
        """
        if len(rule.targets) == 1:
            return rule.targets[0]
        loop = tool_loop(prompt)
        rng = self._rng if loop is None else random.Random(loop.digest)
        [target] = rng.choices(rule.targets, rule.weights)
        return target


class Rewrites:
    """Rules of all models, by model. Discoveries write them."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._models: dict[str, ModelRewrites] = {}

    def of(self, model: str) -> ModelRewrites:
        """Return the rules of the model with the configured name *model*. The object stays the same."""
        return self._models.setdefault(model, ModelRewrites(self._rng))


def oldest(name: str, rewrites: Iterable[tuple[str, ModelRewrites]]) -> tuple[ModelRewrites, RewriteRule] | None:
    """Return the oldest rule that names *name* among those of several models, which come with their names, or None."""
    found = [
        (rule.created, model, each, rule)
        for model, each in rewrites
        if (rule := each.rules.by_name.get(name)) is not None
    ]
    if not found:
        return None
    _, _, each, rule = min(found, key=lambda one: one[:2])
    return each, rule
