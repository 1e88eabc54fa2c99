"""The configured guardrails, and the models and teams that use them."""

from collections.abc import Mapping, Sequence

from gateway.protocol.endpoints.endpoint import Endpoint
from gateway.proxy.exchange import Exchange
from gateway.proxy.guardrails.bedrock_filter import BedrockFilter
from gateway.proxy.guardrails.counters import GuardrailCounters
from gateway.proxy.guardrails.guard import Chain, Guard, GuardrailRule
from gateway.tenancy.teams.caller import Caller


class ModelGuards:
    """The guardrails of one model and of the teams of its requests."""

    def __init__(
        self,
        rules: Mapping[str, GuardrailRule],
        names: Sequence[str],
        *,
        model: str,
        counters: GuardrailCounters,
        applies_native: bool = True,
    ) -> None:
        """*rules* are all rules by name, *names* the rules of the *model*. *applies_native*: its fallbacks on
        Bedrock can apply a guardrail themselves.
        """
        self._rules = rules
        self._names = tuple(names)
        self._model = model
        self._counters = counters
        self._applies_native = applies_native
        self._chains: dict[tuple[str, ...], Chain | None] = {}

    def guard_for(self, caller: Caller | None, exchange: Exchange, endpoint: Endpoint) -> Guard | None:
        """Return the guard of a request of *caller*; None: it has no guardrail.

        Raises:
            GuardrailUnavailable: its team names a guardrail that is not configured.
        """
        names = _named_by(caller)
        if names in self._chains:
            chain = self._chains[names]
        else:
            chain = self._chains[names] = self._chain(names, caller)
        if chain is None:
            return None
        return Guard(chain, endpoint, exchange, model=self._model, counters=self._counters)

    def _chain(self, names: tuple[str, ...], caller: Caller | None = None) -> Chain | None:
        wanted = {*self._names, *names}
        missing = sorted(wanted - self._rules.keys())
        if missing:
            raise self._counters.missing(missing[0], None if caller is None else caller.team.name)
        rules = tuple(rule for name, rule in self._rules.items() if name in wanted)
        if not rules:
            return None
        natives = [rule.filter.native for rule in rules if isinstance(rule.filter, BedrockFilter) and rule.is_native]
        is_native = self._applies_native and len(natives) == 1
        return Chain(rules, natives[0] if is_native else None)


class GuardedModels:
    """The guardrails that are in force."""

    __slots__ = ("_counters", "by_model")

    def __init__(self, counters: GuardrailCounters | None = None) -> None:
        self.by_model: Mapping[str, ModelGuards] | None = None
        """Guards by model; None if no guardrail is configured: then only teams that name one are refused."""
        self._counters = counters or GuardrailCounters()

    def looks_at(self, caller: Caller | None) -> bool:
        """Return whether a request of *caller* needs `guard`."""
        return self.by_model is not None or bool(_named_by(caller))

    def use(self, by_model: Mapping[str, ModelGuards] | None) -> None:
        """Use *by_model* from now on; a running request keeps its guardrails."""
        self.by_model = by_model

    def guard(self, model: str, caller: Caller | None, exchange: Exchange, endpoint: Endpoint) -> Guard | None:
        """Return the guard of a request for *model*; None: it has no guardrail. Raises as `ModelGuards.guard_for`."""
        guards = None if self.by_model is None else self.by_model.get(model)
        if guards is not None:
            return guards.guard_for(caller, exchange, endpoint)
        if caller is not None and caller.team.guardrails:
            raise self._counters.missing(caller.team.guardrails[0], caller.team.name)
        return None


def _named_by(caller: Caller | None) -> tuple[str, ...]:
    return () if caller is None else caller.team.guardrails
