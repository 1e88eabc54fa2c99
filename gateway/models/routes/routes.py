"""The routes that are in force, and how often each led where."""

from collections import Counter
from collections.abc import Iterable, Iterator

from gateway.models.routes.route import Route, RouteChoice


class RouteTable:
    """Found by their configured names. Settings that change make others, which go on counting where these end."""

    def __init__(self, routes: Iterable[Route], former: "RouteTable | None" = None) -> None:
        self._routes = {route.name: route for route in routes}
        self.counters: Counter[RouteChoice] = Counter() if former is None else former.counters
        """Requests by their choice, since the start; it never shrinks."""

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes.values())

    def get(self, name: str) -> Route | None:
        """The route that is configured as *name*, if there is one."""
        return self._routes.get(name)

    def leading_to(self, model: str) -> list[Route]:
        """Entries that may choose *model*."""
        return [route for route in self if model in route.models]
