"""Models and strategies that a key is allowed to use. Both the team's list and the key's list must allow them."""

from collections.abc import Iterable

from gateway.protocol.errors import Forbidden
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.team import Team


class Permits:
    """Permissions of one key, computed once. A missing list allows everything, and an empty list allows nothing."""

    __slots__ = ("_models", "_strategies", "_whose")

    def __init__(self, team: Team, key: Key) -> None:
        self._models = tuple(_Names(names) for names in (team.models, key.models) if names is not None)
        self._strategies = tuple(frozenset(names) for names in (team.strategies, key.strategies) if names is not None)
        self._whose = f"The API key {key.id!r} of the team {team.name!r}"

    def may_use(self, asked: str, model: str) -> bool:
        """Return whether the caller is allowed to use *asked*, which is a name of the model configured as *model*.

        Each list must contain one of the two names. A configured model name allows all names of the model, and an alias
        allows only itself.
        """
        return all(asked in names or model in names for names in self._models)

    def check_model(self, asked: str, model: str) -> None:
        """Raise an error unless the caller is allowed to use *asked*; see `may_use`.

        Raises:
            Forbidden: ``model_not_allowed`` if the caller may not use the model.
        """
        for names in self._models:
            if asked not in names and model not in names:
                text = f"{self._whose} may not use the model {asked[:100]!r}"
                raise Forbidden(text, code="model_not_allowed", param="model")

    def check_strategy(self, strategy: str) -> None:
        """Raise an error unless the caller is allowed to use the strategy that the request selects.

        Raises:
            Forbidden: ``strategy_not_allowed`` if the caller may not use the strategy.
        """
        for names in self._strategies:
            if strategy not in names:
                text = f"{self._whose} may not use the strategy {strategy[:100]!r}"
                raise Forbidden(text, code="strategy_not_allowed", param="x-warmgate-strategy")


class _Names:
    """Set of names that can also contain prefixes ending in ``*``."""

    __slots__ = ("_exact", "_prefixes")

    def __init__(self, names: Iterable[str]) -> None:
        self._exact = frozenset(name for name in names if not name.endswith("*"))
        self._prefixes = tuple(name[:-1] for name in names if name.endswith("*"))

    def __contains__(self, name: str) -> bool:
        return name in self._exact or name.startswith(self._prefixes)
