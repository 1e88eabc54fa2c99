"""Chooses the model of a request that asked for a name which stands for several.

1. What goes on from a kept response of its team goes to the model that keeps it, if its key may use that.
2. Else the first rule that is true of it decides, be its model ready or not: the others are not what it needs.
3. Else the weights do: the variant of its key, user or session, or the one whose turn it is; where nobody could answer
   for that, the next one.
"""

from collections.abc import Callable

import msgspec

from gateway.body import Body
from gateway.errors import Forbidden, UnknownModel
from gateway.model import Model
from gateway.models import Models
from gateway.response_owners import Owner
from gateway.rollout.route import BY_RESPONSE, BY_WEIGHT, Choice, Route
from gateway.rollout.traits import Traits, abilities_in
from gateway.teams.permits import Permits
from gateway.wishes import short_name


class Asking(msgspec.Struct, frozen=True):
    """What is known of a request before its model is."""

    path: str
    raw: bytes
    body: Body
    """As it was read from `raw`."""
    header: Callable[[bytes], str | None]
    """Gives the caller's header of a name."""
    key: str | None = None
    """Public id of the caller's key; None where there are no keys."""
    team: str | None = None
    user: str | None = None
    """The end user, where a header names one."""
    permits: Permits | None = None
    """What its key may use; None where there are no keys."""


class Chooser:
    """Of *models*, which have the routes; *owner_of* knows who keeps a response."""

    def __init__(self, models: Models, owner_of: Callable[[str], Owner | None]) -> None:
        self._models = models
        self._owner_of = owner_of

    async def model(self, asking: Asking, *, peeks: bool = False) -> tuple[Model, Choice | None]:
        """The model for *asking*, and why; no choice where its name stands for one model only.

        One that only *peeks* is not counted, and deals nothing.

        Raises:
            UnknownModel: nothing is served under the name.
            Forbidden: its key may not use any model that could serve it.
        """
        models, name = self._models, asking.body.model
        route = models.route(name)
        if route is None:
            return models.find(name), None
        choice = await self._choice(route, asking, peeks=peeks)
        model = models.get(choice.model)
        if model is None:  # the settings changed while tokens were counted
            raise UnknownModel(f"The model {name[:100]!r} is not served here any more", param="model")
        if not peeks and models.routes is not None:
            models.routes.tally[choice] += 1
        return model, choice

    async def _choice(self, route: Route, asking: Asking, *, peeks: bool) -> Choice:
        response_id = asking.body.previous_response_id
        owner = None if response_id is None else self._owner_of(response_id)
        permits = asking.permits if route.checks_variants else None
        if owner is not None and owner.team == asking.team and owner.model in route.models:
            if permits is not None:
                permits.check_model(owner.model, owner.model)
            return Choice(route.name, owner.model, BY_RESPONSE)
        if route.rules:
            traits = await self._traits(route, asking)
            for rule in route.rules:
                if rule.matches(traits) and (permits is None or permits.may_use(rule.model, rule.model)):
                    return Choice(route.name, rule.model, rule.name)
        return Choice(route.name, self._by_weight(route, asking, permits, peeks=peeks), BY_WEIGHT)

    async def _traits(self, route: Route, asking: Asking) -> Traits:
        body, tokens = asking.body, 0.0
        first = self._models.get(route.first)
        if route.counts_tokens and first is not None:
            exact = await first.exact_prompt(asking.path, asking.raw, body) if route.counts_exactly else None
            tokens = body.prompt_bytes / first.fleet.bytes_per_token.ratio if exact is None else float(exact.tokens)
        return Traits(
            prompt_tokens=tokens,
            max_tokens=body.max_tokens,
            asks=abilities_in(asking.raw) if route.looks_inside else frozenset(),
            team=asking.team or "",
        )

    def _by_weight(self, route: Route, asking: Asking, permits: Permits | None, *, peeks: bool) -> str:
        order = self._order(route, asking, peeks=peeks)
        if permits is not None:
            order = [name for name in order if permits.may_use(name, name)]
            if not order:
                text = f"The API key may not use any of the models that {route.name[:100]!r} stands for"
                raise Forbidden(text, code="model_not_allowed", param="model")
        if route.passes_on:
            for name in order:
                if self._is_ready(name):
                    return name
        return order[0]

    def _order(self, route: Route, asking: Asking, *, peeks: bool) -> list[str]:
        who = self._who(route, asking)
        if who is not None:
            return route.variants.of(who)
        return route.variants.peek() if peeks else route.variants.deal()

    def _is_ready(self, name: str) -> bool:
        model = self._models.get(name)
        return model is not None and model.why_not_ready() is None

    def _who(self, route: Route, asking: Asking) -> str | None:
        who = self._named(route, asking)
        return None if who is None else short_name(who)

    def _named(self, route: Route, asking: Asking) -> str | None:
        """Who keeps its variant; None: nobody that is known, and the request is dealt."""
        if route.sticky == "key":
            return asking.key
        if route.sticky == "user":
            return asking.user or asking.body.user
        if route.sticky == "session":
            first = self._models.get(route.first)
            told = None if first is None else asking.header(first.session_header)
            return told or asking.body.session
        return None
