"""Which of several variants a request gets, by their weights: always the same for one caller, or dealt one by one.

1. A caller's variant is found by weighted rendezvous hashing (Schindelhauer and Schomaker 2005): every variant draws
   -ln(u) / weight, u being a keyed hash of variant and caller, and the least draw wins. Nothing is kept, so replicas
   and later lives of the gateway agree. A weight that changes moves the share that it has to, to it or away from it.
2. Requests of nobody in particular are dealt by a sequence that adds the golden ratio: after n requests each variant is
   within a few of its share, however many there are, and no rhythm of a caller meets always the same one.
"""

import hashlib
import math
from bisect import bisect_right
from collections.abc import Mapping

STEP = (math.sqrt(5.0) - 1.0) / 2.0
"""Fractional parts of its multiples spread most evenly, and so do those of every n-th of them (Weyl 1916)."""
_HASH_BYTES = 8
_SPAN = 2.0**64


class Variants:
    """Names with their weights, of which at least one is above 0; a name of weight 0 is never chosen."""

    def __init__(self, weights: Mapping[str, float], *, key: str, start: float = 0.0) -> None:
        """*key* deals callers in its own way: another key, other callers. *start*, 0 to 1, is where dealing begins.

        Raises:
            ValueError: no weight is above 0.
        """
        self._weights = {name: weight for name, weight in weights.items() if weight > 0.0}
        total = sum(self._weights.values())
        if total <= 0.0:
            raise ValueError("at least one weight must be above 0")
        self.shares: Mapping[str, float] = {name: weight / total for name, weight in self._weights.items()}
        """Of all requests, by name; they add up to 1."""
        self._key = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=32).digest()
        self._names = list(self._weights)
        self._ends: list[float] = []
        end = 0.0
        for share in self.shares.values():
            end += share
            self._ends.append(end)
        self._at = start % 1.0

    def of(self, caller: str) -> list[str]:
        """All variants, that of *caller* first, and then whoever would be its variant without those before.

        O(variants), 2 us each.
        """
        who = caller.encode("utf-8", "surrogatepass")
        return sorted(self._names, key=lambda name: self._draw(name, who))

    def peek(self) -> list[str]:
        """What `deal` will answer next."""
        first = self._names[min(bisect_right(self._ends, self._at), len(self._names) - 1)]
        others = [name for name in self._names if name != first]
        return [first, *sorted(others, key=lambda name: -self._weights[name])]

    def deal(self) -> list[str]:
        """All variants, the one whose turn it is first, and then by weight."""
        order = self.peek()
        self._at = (self._at + STEP) % 1.0
        return order

    def _draw(self, name: str, who: bytes) -> float:
        text = name.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(
            len(text).to_bytes(4, "little") + text + who, digest_size=_HASH_BYTES, key=self._key
        ).digest()
        return -math.log((int.from_bytes(digest, "little") + 0.5) / _SPAN) / self._weights[name]
