"""The guardrails that the settings have, and who is guarded by which."""

from collections.abc import Mapping, Sequence

from gateway.endpoints.endpoint import Endpoint
from gateway.exchange import Exchange
from gateway.guardrails.bedrock_filter import BedrockFilter
from gateway.guardrails.guard import Chain, Guard, Rule
from gateway.guardrails.tally import GuardrailTally
from gateway.teams.caller import Caller


class ModelGuards:
    """The guardrails of one model, and those that the teams of its requests bring."""

    def __init__(
        self,
        rules: Mapping[str, Rule],
        names: Sequence[str],
        *,
        model: str,
        tally: GuardrailTally,
        applies_native: bool = True,
    ) -> None:
        """*rules* are all that there are, by name, *names* those of the *model*. *applies_native*: its fallbacks on
        Bedrock can apply a guardrail themselves.
        """
        self._rules = rules
        self._names = tuple(names)
        self._model = model
        self._tally = tally
        self._applies_native = applies_native
        self._chains: dict[tuple[str, ...], Chain | None] = {}

    def of(self, caller: Caller | None, exchange: Exchange, endpoint: Endpoint) -> Guard | None:
        """What guards a request of *caller*; None: nothing does.

        Raises:
            GuardrailAway: its team names a guardrail that there is not: nobody knows what that was to keep.
        """
        names = _named_by(caller)
        if names in self._chains:
            chain = self._chains[names]
        else:
            chain = self._chains[names] = self._chain(names, caller)
        if chain is None:
            return None
        return Guard(chain, endpoint, exchange, model=self._model, tally=self._tally)

    def _chain(self, names: tuple[str, ...], caller: Caller | None = None) -> Chain | None:
        wanted = {*self._names, *names}
        missing = sorted(wanted - self._rules.keys())
        if missing:
            raise self._tally.missing(missing[0], None if caller is None else caller.team.name)
        rules = tuple(rule for name, rule in self._rules.items() if name in wanted)
        if not rules:
            return None
        natives = [rule.filter.native for rule in rules if isinstance(rule.filter, BedrockFilter) and rule.is_native]
        is_native = self._applies_native and len(natives) == 1
        return Chain(rules, natives[0] if is_native else None)


class GuardedModels:
    """The guardrails that are in force."""

    __slots__ = ("_tally", "by_model")

    def __init__(self, tally: GuardrailTally | None = None) -> None:
        self.by_model: Mapping[str, ModelGuards] | None = None
        """None where the settings have no guardrail at all, and only requests of teams that name one have to look."""
        self._tally = tally or GuardrailTally()

    def looks_at(self, caller: Caller | None) -> bool:
        """Whether a request of *caller* needs `guard`."""
        return self.by_model is not None or bool(_named_by(caller))

    def use(self, by_model: Mapping[str, ModelGuards] | None) -> None:
        """Have these from this moment on; a request ends under those that it began with."""
        self.by_model = by_model

    def guard(self, model: str, caller: Caller | None, exchange: Exchange, endpoint: Endpoint) -> Guard | None:
        """What guards a request for *model*, as configured; None: nothing does. Raises as `ModelGuards.of`."""
        guards = None if self.by_model is None else self.by_model.get(model)
        if guards is not None:
            return guards.of(caller, exchange, endpoint)
        if caller is not None and caller.team.guardrails:
            raise self._tally.missing(caller.team.guardrails[0], caller.team.name)
        return None


def _named_by(caller: Caller | None) -> tuple[str, ...]:
    return () if caller is None else caller.team.guardrails
