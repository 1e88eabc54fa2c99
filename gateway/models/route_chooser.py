"""Choice of a model for requests whose model name stands for several models (a route).

1. A request that continues a stored response of its team goes to the model that stores it, if its key may use that
   model.
2. Otherwise a request that continues a tool loop goes to the model that answered the loop so far, even if this model
   is not ready: another model would continue a chain of calls that it did not begin.
3. Otherwise the first matching rule decides, even if its model is not ready: no other model can serve the request.
4. Otherwise the weights decide: the variant of the key, user or session, or the next variant in turn. Variants that
   are not ready are skipped.

A gateway that does not know a tool loop, because another gateway served it so far, compares rules with the message that
began the loop and what precedes it, and uses the digest of this part in place of a turn. So gateways agree without a
shared state, as long as the weights and the readiness of the models do not change during the loop.
"""

from collections.abc import Callable
from hashlib import blake2b

import msgspec

from gateway.models.model import Model
from gateway.models.registry import Models
from gateway.models.response_affinity.owners import ResponseOwner
from gateway.models.routes.route import BY_RESPONSE, BY_TOOL_LOOP, BY_WEIGHT, Route, RouteChoice
from gateway.models.routes.traits import Traits, abilities_in
from gateway.protocol.body import Body
from gateway.protocol.errors import Forbidden, UnknownModel
from gateway.protocol.request_hints import short_name
from gateway.protocol.session_identity import session_name
from gateway.protocol.tool_loop import ToolLoop, tool_loop
from gateway.tenancy.teams.permits import Permits


class RouteQuery(msgspec.Struct, frozen=True):
    """Properties of a request that are known before its model is chosen."""

    path: str
    raw: bytes
    body: Body
    """Body of the request, parsed from `raw`."""
    header: Callable[[bytes], str | None]
    """Function that returns a request header by name, or None."""
    key: str | None = None
    """Public id of the caller's API key, or None if there are no keys."""
    team: str | None = None
    user: str | None = None
    """End user that a request header names, or None."""
    permits: Permits | None = None
    """Permissions of the caller's API key, or None if there are no keys."""


class RouteChooser:
    """Choice among *models* and their routes. *owner_of* returns the owner of a stored response."""

    def __init__(self, models: Models, owner_of: Callable[[str], ResponseOwner | None]) -> None:
        self._models = models
        self._owner_of = owner_of

    async def model(self, asking: RouteQuery, *, peeks: bool = False) -> tuple[Model, RouteChoice | None]:
        """Return the model for *asking*, and the reason for the choice, or None if only one model has this name.

        With *peeks*, the request is not counted and takes no turn.

        Raises:
            UnknownModel: if no model or route has the requested name.
            Forbidden: if the key may not use any model that could serve the request.
        """
        models, name = self._models, asking.body.model
        route = models.route(name)
        if route is None:
            return models.find(name), None
        choice = await self._choice(route, asking, peeks=peeks)
        model = models.get(choice.model)
        if model is None:  # the settings changed while tokens were counted
            raise UnknownModel(f"The model {name[:100]!r} is no longer served here", param="model")
        if not peeks and models.routes is not None:
            models.routes.counters[choice] += 1
        return model, choice

    async def _choice(self, route: Route, asking: RouteQuery, *, peeks: bool) -> RouteChoice:
        response_id = asking.body.previous_response_id
        owner = None if response_id is None else self._owner_of(response_id)
        permits = asking.permits if route.checks_variants else None
        if owner is not None and owner.team == asking.team and owner.model in route.models:
            if permits is not None:
                permits.check_model(owner.model, owner.model)
            return RouteChoice(route.name, owner.model, BY_RESPONSE)
        loop = tool_loop(asking.body.prompt)
        if loop is None:
            return await self._chosen(route, asking, None, permits, peeks=peeks)
        table, name = self._models.routes, _loop_name(route, asking, loop)
        continues = loop.has_results or asking.body.omitted_bytes > 0
        kept = table.tool_loops.model_of(name) if continues and table is not None else None
        if kept is not None and self._may_continue(route, kept, permits):
            choice = RouteChoice(route.name, kept, BY_TOOL_LOOP)
        else:
            choice = await self._chosen(route, asking, loop, permits, peeks=peeks)
        if table is not None and not peeks:
            table.tool_loops.keep(name, choice.model)
        return choice

    def _may_continue(self, route: Route, model: str, permits: Permits | None) -> bool:
        """Return whether *model* can answer further requests of its tool loop, also if its weight is 0 meanwhile."""
        is_served = model in route.configured_models and self._models.get(model) is not None
        return is_served and (permits is None or permits.may_use(model, model))

    async def _chosen(
        self, route: Route, asking: RouteQuery, loop: ToolLoop | None, permits: Permits | None, *, peeks: bool
    ) -> RouteChoice:
        if route.rules:
            traits = await self._traits(route, asking, loop)
            for rule in route.rules:
                if rule.matches(traits) and (permits is None or permits.may_use(rule.model, rule.model)):
                    return RouteChoice(route.name, rule.model, rule.name)
        return RouteChoice(route.name, self._by_weight(route, asking, loop, permits, peeks=peeks), BY_WEIGHT)

    async def _traits(self, route: Route, asking: RouteQuery, loop: ToolLoop | None) -> Traits:
        """Return the traits of the request, or of the part of it that began its tool loop *loop*."""
        body, tokens = asking.body, 0.0
        first = self._models.get(route.first)
        if route.counts_tokens and first is not None:
            exact = await first.exact_prompt(asking.path, asking.raw, body) if route.counts_exactly else None
            tokens = body.prompt_bytes / first.fleet.bytes_per_token.ratio if exact is None else float(exact.tokens)
            if loop is not None and loop.has_results:
                tokens *= loop.beginning / body.prompt_bytes
        return Traits(
            prompt_tokens=tokens,
            max_tokens=body.max_tokens,
            asks=abilities_in(asking.raw, before_results=loop is not None) if route.looks_inside else frozenset(),
            team=asking.team or "",
        )

    def _by_weight(
        self, route: Route, asking: RouteQuery, loop: ToolLoop | None, permits: Permits | None, *, peeks: bool
    ) -> str:
        order = self._order(route, asking, loop, peeks=peeks)
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

    def _order(self, route: Route, asking: RouteQuery, loop: ToolLoop | None, *, peeks: bool) -> list[str]:
        who = self._who(route, asking)
        if who is None and loop is not None:
            who = _loop_name(route, asking, loop).hex()
        if who is not None:
            return route.variants.order(who)
        return route.variants.peek() if peeks else route.variants.deal()

    def _is_ready(self, name: str) -> bool:
        model = self._models.get(name)
        return model is not None and model.why_not_ready() is None

    def _who(self, route: Route, asking: RouteQuery) -> str | None:
        who = self._named(route, asking)
        return None if who is None else short_name(who)

    def _named(self, route: Route, asking: RouteQuery) -> str | None:
        """Return the key, user or session that determines the model variant, or None if variants are used in turn."""
        if route.sticky == "key":
            return asking.key
        if route.sticky == "user":
            return asking.user or asking.body.user
        if route.sticky == "session":
            first = self._models.get(route.first)
            in_body = asking.body.session
            return in_body if first is None else session_name(asking.header, first.session_header, in_body)
        return None


def _loop_name(route: Route, asking: RouteQuery, loop: ToolLoop) -> bytes:
    """Return a name for *loop* that no loop of another route, team or API key has."""
    scope = "\0".join((route.name, asking.team or "", asking.key or ""))
    return blake2b(scope.encode(), key=loop.digest, digest_size=16).digest()
