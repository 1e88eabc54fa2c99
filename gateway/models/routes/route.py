"""One name that stands for several models."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from gateway.models.routes.rule import RouteRule
from routing.variants import Variants

Sticky = Literal["none", "key", "user", "session"]

BY_WEIGHT = "weight"
BY_RESPONSE = "response"
"""Reason of a choice that no rule names: its share, or a kept response that the request continues."""


class RouteChoice(msgspec.Struct, frozen=True):
    """The model that a request got, and why."""

    route: str
    model: str
    """Configured name of the model."""
    rule: str
    """Name of the rule that was true of it, else `BY_WEIGHT` or `BY_RESPONSE`."""


class Route:
    """Rules and shares by which requests for *name* choose a model. Only `Variants.deal` changes anything in it."""

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
        """*first* is the model whose tokens are counted."""
        self.name = name
        self.first = first
        self.variants = variants
        self.rules = tuple(rules)
        self.sticky: Sticky = sticky
        self.passes_on = passes_on
        """A request goes to the next variant if its own is not ready."""
        self.counts_exactly = counts_exactly
        self.checks_variants = checks_variants
        """A key needs permission for the chosen model as well."""
        self.counts_tokens = any(rule.prompt_tokens_from or rule.prompt_tokens_below for rule in self.rules)
        self.looks_inside = any(rule.asks for rule in self.rules)
        """Whether bodies have to be read a second time, for what they ask for."""
        self.models = frozenset((*variants.shares, *(rule.model for rule in self.rules)))
        """All that it may lead to."""
