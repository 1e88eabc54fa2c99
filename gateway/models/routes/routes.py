"""Routes that are in use, and how often each model was chosen."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from gateway.models.routes.route import Route, RouteChoice
from gateway.models.routes.tool_loops import ToolLoops
from gateway.tenancy.teams.route_weights import RouteWeights


class RouteTable:
    """Routes in use, by configured name. After a change of settings, a new table continues the counters and the tool
    loops of *former*.
    """

    def __init__(self, routes: Iterable[Route], former: "RouteTable | None" = None) -> None:
        self._routes = {route.name: route for route in routes}
        self.counters: Counter[RouteChoice] = Counter() if former is None else former.counters
        """Number of requests since startup by chosen model and reason. The numbers never decrease."""
        self.tool_loops: ToolLoops = ToolLoops() if former is None else former.tool_loops
        """Models of the tool loops that used routes last."""

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes.values())

    def use_weights(self, stored: Mapping[str, RouteWeights]) -> None:
        """Use the weights in *stored*, by route name, instead of those in the settings.

        Stored weights apply only as long as the settings are those that they were made for. O(routes).
        """
        for route in self:
            override = stored.get(route.name)
            is_valid = override is not None and override.applies_to(route.configured_weights)
            route.reweigh(override.weights if is_valid and override is not None else route.configured_weights)

    def get(self, name: str) -> Route | None:
        """Return the route with the configured name *name*, or None."""
        return self._routes.get(name)

    def leading_to(self, model: str) -> list[Route]:
        """Return the routes that can select *model*."""
        return [route for route in self if model in route.models]
