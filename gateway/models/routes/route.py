"""Route: one name that stands for several models."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from gateway.models.routes.rule import RouteRule
from routing.variants import Variants

Sticky = Literal["none", "key", "user", "session"]

BY_WEIGHT = "weight"
BY_RESPONSE = "response"
"""Value of `RouteChoice.rule` for a request that continues a stored response."""
BY_TOOL_LOOP = "tool_loop"
"""Value of `RouteChoice.rule` for a request that continues a tool loop with the model of the loop."""


class RouteChoice(msgspec.Struct, frozen=True):
    """Model that was chosen for a request, and the reason for the choice."""

    route: str
    model: str
    """Configured name of the chosen model."""
    rule: str
    """Name of the matching rule, or `BY_WEIGHT`, `BY_RESPONSE` or `BY_TOOL_LOOP` if no rule matched."""


class Route:
    """Rules and weights that select a model for requests to *name*. Only `Variants.deal` and `reweigh` change state."""

    def __init__(
        self,
        name: str,
        *,
        first: str,
        variants: Variants,
        rules: Sequence[RouteRule] = (),
        sticky: Sticky = "none",
        passes_on: bool = True,
        counts_exactly: bool = False,
        checks_variants: bool = False,
    ) -> None:
        """Create the route. *first* is the model whose tokenizer or estimate counts prompt tokens."""
        self.name = name
        self.first = first
        self.variants = variants
        self.configured_weights = variants.weights
        """Weights in the settings, by model."""
        self.rules = tuple(rules)
        self.sticky: Sticky = sticky
        self.passes_on = passes_on
        """Whether a request goes to the next model variant if its own variant is not ready."""
        self.counts_exactly = counts_exactly
        self.checks_variants = checks_variants
        """Whether an API key also needs permission for the chosen model."""
        self.counts_tokens = any(rule.prompt_tokens_from or rule.prompt_tokens_below for rule in self.rules)
        self.looks_inside = any(rule.asks for rule in self.rules)
        """Whether rules require features of requests, so that request bodies must be parsed."""
        self.models = self._selectable()
        """Names of all models that the route can select."""
        self.configured_models = frozenset((*self.configured_weights, *(rule.model for rule in self.rules)))
        """Names of all models in the settings of the route, whatever their weights."""

    @property
    def is_reweighed(self) -> bool:
        """Whether the weights in use differ from those in the settings."""
        return self.variants.weights != self.configured_weights

    def reweigh(self, weights: Mapping[str, float]) -> None:
        """Use *weights* for the models of the route from now on.

        Raises:
            ValueError: if no weight is above 0. Then nothing has changed.
        """
        if weights != self.variants.weights:
            self.variants = self.variants.reweighed(weights)
            self.models = self._selectable()

    def _selectable(self) -> frozenset[str]:
        return frozenset((*self.variants.shares, *(rule.model for rule in self.rules)))
