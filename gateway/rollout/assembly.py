"""Routes from settings."""

import random
from collections.abc import Sequence

from gateway.rollout.route import Route
from gateway.rollout.routes import Routes
from gateway.rollout.rule import Rule
from gateway.settings import RouteSettings
from routing.variants import Variants


def routes_of(settings: Sequence[RouteSettings], rng: random.Random, former: Routes | None) -> Routes | None:
    """The routes that *settings* say; None if there are none. *rng* says where dealing begins in this process."""
    if not settings and former is None:
        return None
    return Routes([_route(each, rng.random()) for each in settings], former)


def _route(settings: RouteSettings, start: float) -> Route:
    key = settings.name if settings.salt is None else settings.salt
    return Route(
        settings.name,
        first=settings.to[0].model,
        variants=Variants({each.model: each.weight for each in settings.to}, key=key, start=start),
        rules=[
            Rule(
                rule.name or rule.model,
                rule.model,
                prompt_tokens_from=rule.prompt_tokens_from,
                prompt_tokens_below=rule.prompt_tokens_below,
                max_tokens_from=rule.max_tokens_from,
                asks=frozenset(rule.asks),
                teams=None if rule.teams is None else frozenset(rule.teams),
            )
            for rule in settings.rules
        ],
        sticky=settings.sticky,
        passes_on=settings.when_not_ready == "next",
        counts_exactly=settings.count == "exact",
        checks_variants=settings.variant_permits,
    )
