"""Rule that sends matching requests to one model before any weights apply."""

import msgspec

from gateway.models.routes.traits import Ability, Traits


class RouteRule(msgspec.Struct, frozen=True):
    """Rule that matches a request if all of its conditions hold. A field that is None or empty is not a condition."""

    name: str
    model: str
    prompt_tokens_from: int | None = None
    prompt_tokens_below: int | None = None
    max_tokens_from: int | None = None
    asks: frozenset[Ability] = frozenset()
    """Features that a request must use. All of them are required."""
    teams: frozenset[str] | None = None

    def matches(self, traits: Traits) -> bool:
        """Return whether the rule matches *traits*. For `max_tokens_from`, the request must set an output limit."""
        least, below, most = self.prompt_tokens_from, self.prompt_tokens_below, self.max_tokens_from
        if least is not None and traits.prompt_tokens < least:
            return False
        if below is not None and traits.prompt_tokens >= below:
            return False
        if most is not None and (traits.max_tokens is None or traits.max_tokens < most):
            return False
        return self.asks <= traits.asks and (self.teams is None or traits.team in self.teams)
