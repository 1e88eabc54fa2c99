"""Configured guardrails, and the models and teams that use them."""

from collections.abc import Mapping, Sequence

from gateway.protocol.endpoints.endpoint import Endpoint
from gateway.protocol.errors import GatewayError
from gateway.proxy.exchange import Exchange
from gateway.proxy.guardrails.bedrock_filter import BedrockFilter
from gateway.proxy.guardrails.counters import GuardrailCounters
from gateway.proxy.guardrails.guard import SAYS_NOTHING, Chain, Guard, GuardrailRule
from gateway.tenancy.teams.caller import Caller


class ModelGuards:
    """Guardrails of one model, combined with the guardrails of the callers' teams."""

    def __init__(
        self,
        rules: Mapping[str, GuardrailRule],
        names: Sequence[str],
        *,
        model: str,
        counters: GuardrailCounters,
        applies_native: bool = True,
    ) -> None:
        """Create the guards of *model*. *rules* contain all configured guardrails, and *names* selects the guardrails
        of the model. If *applies_native* is true, the model's fallbacks on Bedrock can apply a guardrail themselves.
        """
        self._rules = rules
        self._names = tuple(names)
        self._model = model
        self._counters = counters
        self._applies_native = applies_native
        self._chains: dict[tuple[str, ...], Chain | None] = {}

    def guard_for(self, caller: Caller | None, exchange: Exchange, endpoint: Endpoint) -> Guard | None:
        """Return the guard for a request of *caller*, or None if no guardrail applies to this request.

        Raises:
            GuardrailUnavailable: if the caller's team names a guardrail that is not configured.
            GatewayError: if the answer must be checked, but does not pass through the gateway.
        """
        names = _named_by(caller)
        if names in self._chains:
            chain = self._chains[names]
        else:
            chain = self._chains[names] = self._chain(names, caller)
        if chain is None:
            return None
        delivery = exchange.delivery
        is_hidden = delivery is not None and not delivery.shows_answers and endpoint.path not in SAYS_NOTHING
        if is_hidden and chain.rules_for("response"):
            text = "A guardrail must check the answer, which does not pass through the gateway"
            raise GatewayError(f"{text}. Set response_body_mode of ext_proc to FULL_DUPLEX_STREAMED.")
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
    """Guardrails that are currently in effect, by model."""

    __slots__ = ("_counters", "by_model")

    def __init__(self, counters: GuardrailCounters | None = None) -> None:
        self.by_model: Mapping[str, ModelGuards] | None = None
        """Guards by model name. If it is None, no guardrail is configured, and only requests of teams that use a
        guardrail are refused.
        """
        self._counters = counters or GuardrailCounters()

    def looks_at(self, caller: Caller | None) -> bool:
        """Return whether guardrails might apply to a request of *caller*, so that `guard` must be called."""
        return self.by_model is not None or bool(_named_by(caller))

    def use(self, by_model: Mapping[str, ModelGuards] | None) -> None:
        """Use the guards *by_model* for new requests. Running requests keep their guardrails."""
        self.by_model = by_model

    def guard(self, model: str, caller: Caller | None, exchange: Exchange, endpoint: Endpoint) -> Guard | None:
        """Return the guard for a request for *model*, or None if no guardrail applies. Raise the errors of
        `ModelGuards.guard_for`.
        """
        guards = None if self.by_model is None else self.by_model.get(model)
        if guards is not None:
            return guards.guard_for(caller, exchange, endpoint)
        if caller is not None and caller.team.guardrails:
            raise self._counters.missing(caller.team.guardrails[0], caller.team.name)
        return None


def _named_by(caller: Caller | None) -> tuple[str, ...]:
    return () if caller is None else caller.team.guardrails
