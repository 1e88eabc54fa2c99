"""Routing strategies that the requests of one model can select."""

from collections.abc import Callable

from routing.request import Request
from routing.strategy import Strategy


class StrategiesByName:
    """Cache of routing strategies. Each strategy is created on first use and kept, because strategies have state.

    *default* is the name of the strategy for requests that do not select one.
    """

    def __init__(self, default: str, make: Callable[[str], Strategy]) -> None:
        self.default = default
        self._make = make
        self._made: dict[str, Strategy] = {}

    def named(self, name: str) -> Strategy:
        strategy = self._made.get(name)
        if strategy is None:
            strategy = self._made[name] = self._make(name)
        return strategy

    def chosen_by(self, request: Request) -> Strategy:
        """Return the routing strategy that *request* selects, or the default strategy."""
        return self.named(request.strategy or self.default)
