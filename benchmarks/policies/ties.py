"""The lowest of several scores."""

import random
from collections.abc import Sequence


def lowest(scores: Sequence[float], rng: random.Random) -> int:
    """The place of the lowest score; of equal ones, any at random."""
    least = min(scores)
    places = [place for place, score in enumerate(scores) if score == least]
    return places[0] if len(places) == 1 else rng.choice(places)
