"""Routes that are in use, and how often each model was chosen."""

from collections import Counter
from collections.abc import Iterable, Iterator

from gateway.models.routes.route import Route, RouteChoice


class RouteTable:
    """Routes in use, by configured name. After a change of settings, a new table continues the counters of *former*."""

    def __init__(self, routes: Iterable[Route], former: "RouteTable | None" = None) -> None:
        self._routes = {route.name: route for route in routes}
        self.counters: Counter[RouteChoice] = Counter() if former is None else former.counters
        """Number of requests since startup by chosen model and reason. The numbers never decrease."""

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes.values())

    def get(self, name: str) -> Route | None:
        """Return the route with the configured name *name*, or None."""
        return self._routes.get(name)

    def leading_to(self, model: str) -> list[Route]:
        """Return the routes that can select *model*."""
        return [route for route in self if model in route.models]
