"""Rule that sends requests to a certain model, whatever the weights say."""

import msgspec

from gateway.models.routes.traits import Ability, Traits


class RouteRule(msgspec.Struct, frozen=True):
    """True of a request if all that is given is true of it; None, or nothing in `asks`: it is not looked at."""

    name: str
    model: str
    prompt_tokens_from: int | None = None
    prompt_tokens_below: int | None = None
    max_tokens_from: int | None = None
    asks: frozenset[Ability] = frozenset()
    """Features that a request must use, all of them."""
    teams: frozenset[str] | None = None

    def matches(self, traits: Traits) -> bool:
        """A request without a limit of output allows any: it is not below any number, and not known to reach one."""
        least, below, most = self.prompt_tokens_from, self.prompt_tokens_below, self.max_tokens_from
        if least is not None and traits.prompt_tokens < least:
            return False
        if below is not None and traits.prompt_tokens >= below:
            return False
        if most is not None and (traits.max_tokens is None or traits.max_tokens < most):
            return False
        return self.asks <= traits.asks and (self.teams is None or traits.team in self.teams)
