"""Search for the highest load at which the best other router keeps its time to first token within the limit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

TTFT_P90_LIMIT_S = 4.0
GROWTH = 1.5
MOST_GROWTHS = 8
RATIO = 1.06
"""Ratio at which the search ends, between the lowest excessive load and the highest acceptable load."""

P90 = Callable[[str, float], float]
"""Function that returns the TTFT p90 in seconds of the named router at a load."""


class NoLoadFoundError(Exception):
    """Error for a search without result: the limit was exceeded at no tried load, or at every one."""


@dataclass(frozen=True, slots=True)
class Look:
    """Short run of the search."""

    router: str
    load: float
    ttft_p90_s: float


@dataclass(slots=True)
class LoadSearch:
    """Looks at *routers* one after the other, at each load the best one of the load before first.

    A load is kept when any of them keeps the limit, so one that is kept costs one look as a rule. Who did not keep it
    is not looked at again at a higher one.
    """

    routers: Sequence[str]
    p90_s: P90
    limit_s: float = TTFT_P90_LIMIT_S
    looks: list[Look] = field(default_factory=list)

    def highest(self, first: float) -> float:
        """Return the highest load that the best router can serve, within `RATIO`. *first* is the start of the search.

        Raises:
            NoLoadFoundError: if the load is not within `MOST_GROWTHS` steps of the factor `GROWTH` from *first*.
        """
        low, high = self._bracket(first)
        while high / low > RATIO:
            middle = (low * high) ** 0.5
            low, high = (middle, high) if self._is_kept(middle) else (low, middle)
        return low

    def _bracket(self, first: float) -> tuple[float, float]:
        """Return a load that meets the limit, and a higher load that does not."""
        is_kept = self._is_kept(first)
        load = first
        for _ in range(MOST_GROWTHS):
            following = load * GROWTH if is_kept else load / GROWTH
            if self._is_kept(following) != is_kept:
                return min(load, following), max(load, following)
            load = following
        raise NoLoadFoundError(
            f"TTFT p90 is {'within' if is_kept else 'above'} {self.limit_s:g} s even at load {load:.3g}"
        )

    def _is_kept(self, load: float) -> bool:
        for router in self._best_first():
            if self._is_too_much(router, load):
                continue
            look = Look(router, load, self.p90_s(router, load))
            self.looks.append(look)
            if look.ttft_p90_s <= self.limit_s:
                return True
        return False

    def _best_first(self) -> list[str]:
        """Return the names ordered by their last results. Names without a result come last."""
        last = {look.router: look.ttft_p90_s / look.load for look in self.looks}
        return sorted(self.routers, key=lambda router: last.get(router, float("inf")))

    def _is_too_much(self, router: str, load: float) -> bool:
        """Return whether the router exceeded the limit at this load or a lower one."""
        return any(
            look.router == router and look.load <= load and look.ttft_p90_s > self.limit_s for look in self.looks
        )
