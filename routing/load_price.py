"""The cost, in seconds, of loading a LoRA adapter before a worker can serve a request for it."""

ABSENT_S = 3600.0
"""Cost on a worker that cannot load the adapter: it is tried last."""
MEMORY = 0.3
"""Weight of one load in the learned time."""


class LoadPrice:
    """Learned time of a load, for all adapters of a base model: their sizes are similar."""

    def __init__(self, load_s: float) -> None:
        """*load_s* is used until the first load."""
        self.load_s = load_s
        self._is_learned = False

    def learn(self, took_s: float) -> None:
        """Learn from a load. The first one replaces the initial time, later ones correct it."""
        self.load_s = took_s if not self._is_learned else self.load_s + (took_s - self.load_s) * MEMORY
        self._is_learned = True

    def price_s(self, *, holds: bool | None, loadable: bool, failed: bool = False) -> float:
        """Return the price of a request on a worker that *holds* the adapter. None: unknown, taken as true.

        *loadable*: the worker can load it on request. *failed*: it recently failed to.
        """
        if holds is None or holds:
            return 0.0
        return self.load_s if loadable and not failed else ABSENT_S
