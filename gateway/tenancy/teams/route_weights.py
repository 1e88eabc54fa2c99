"""Weights of a route that an operator set with the admin API, in their stored form."""

import math
from collections.abc import Mapping
from typing import Final

import msgspec

MAX_ROUTES: Final = 1000
"""Maximum number of routes with weights in a store."""


class RouteWeights(msgspec.Struct, frozen=True, omit_defaults=True):
    """Weights of the models of a route, which replace the weights in the settings.

    The weights apply only while the settings are those for which they were set. When the weights of the route in
    the settings change, the settings apply again.
    """

    route: str
    weights: dict[str, float]
    """Weights by model. At least one of them is above 0."""
    configured: dict[str, float]
    """Weights that the settings contained when these weights were set."""
    changed_at: float = 0.0
    """Time of the change, in seconds since 1970."""

    def applies_to(self, configured: Mapping[str, float]) -> bool:
        """Return whether the weights apply to a route with the weights *configured* in the settings."""
        return self.configured == configured and self.weights.keys() == configured.keys() and is_usable(self.weights)


def is_usable(weights: Mapping[str, float]) -> bool:
    """Return whether all *weights* are finite and not negative, and at least one of them is above 0."""
    total = sum(weights.values())
    return math.isfinite(total) and total > 0 and all(weight >= 0 for weight in weights.values())
