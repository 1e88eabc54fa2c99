"""Choose among weighted model variants, either always the same one for a caller or in sequence.

1. The variant of a caller is chosen by weighted rendezvous hashing (Schindelhauer and Schomaker 2005). Each variant
   draws -ln(u) / weight, where u is a keyed hash of the variant and the caller, and the variant with the lowest draw
   wins. Nothing is stored, so replicas and restarted gateways agree. A changed weight reassigns as few callers as
   possible.
2. Requests without a caller are dealt by a sequence whose step is the golden ratio. After n requests, each variant is
   within a few requests of its share, and periodic requests do not always get the same variant.
"""

import hashlib
import math
from bisect import bisect_right
from collections.abc import Mapping

STEP = (math.sqrt(5.0) - 1.0) / 2.0
"""Fractional part of the golden ratio, whose multiples are spread evenly between 0 and 1 (Weyl 1916)."""
_HASH_BYTES = 8
_SPAN = 2.0**64


class Variants:
    """Names of model variants with their weights. A name with weight 0 is never chosen."""

    def __init__(self, weights: Mapping[str, float], *, key: str, start: float = 0.0) -> None:
        """Start the sequence at *start*, from 0 to 1. A change of *key* reassigns all callers.

        Raises:
            ValueError: if no weight is above 0.
        """
        self.weights: Mapping[str, float] = dict(weights)
        """Weights of all variants, including those that are never chosen."""
        self._weights = {name: weight for name, weight in weights.items() if weight > 0.0}
        total = sum(self._weights.values())
        if total <= 0.0:
            raise ValueError("at least one weight must be above 0")
        self.shares: Mapping[str, float] = {name: weight / total for name, weight in self._weights.items()}
        """Share of all requests that each variant gets."""
        self._text = key
        self._key = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=32).digest()
        self._names = list(self._weights)
        self._ends: list[float] = []
        end = 0.0
        for share in self.shares.values():
            end += share
            self._ends.append(end)
        self._at = start % 1.0

    def reweighed(self, weights: Mapping[str, float]) -> "Variants":
        """Return variants with other *weights* that hash callers with the same key and continue the sequence.

        Raises:
            ValueError: if no weight is above 0.
        """
        return Variants(weights, key=self._text, start=self._at)

    def order(self, caller: str) -> list[str]:
        """Return all variants, starting with the one for *caller*. Each next variant is the one for *caller* if the
        preceding ones did not exist.

        The cost is about 2 microseconds per variant.
        """
        who = caller.encode("utf-8", "surrogatepass")
        return sorted(self._names, key=lambda name: self._draw(name, who))

    def peek(self) -> list[str]:
        """Return the result of the next call of `deal` without advancing the sequence."""
        first = self._names[min(bisect_right(self._ends, self._at), len(self._names) - 1)]
        others = [name for name in self._names if name != first]
        return [first, *sorted(others, key=lambda name: -self._weights[name])]

    def deal(self) -> list[str]:
        """Return all variants: first the next variant of the sequence, and then the others by descending weight."""
        order = self.peek()
        self._at = (self._at + STEP) % 1.0
        return order

    def _draw(self, name: str, who: bytes) -> float:
        text = name.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(
            len(text).to_bytes(4, "little") + text + who, digest_size=_HASH_BYTES, key=self._key
        ).digest()
        return -math.log((int.from_bytes(digest, "little") + 0.5) / _SPAN) / self._weights[name]
