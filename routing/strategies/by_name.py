"""The strategies among which the requests of one model may choose."""

from collections.abc import Callable

from routing.strategy import Strategy


class StrategiesByName:
    """Each strategy is made when it is first asked for, and kept: it has turns of its own.

    *default* names the one for requests that ask for none.
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
