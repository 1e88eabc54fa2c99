"""Cost in seconds of loading a LoRA adapter before a worker can answer a request for this adapter."""

ABSENT_S = 3600.0
"""Cost in seconds for a worker that cannot load the LoRA adapter. The value is high, so the worker is tried last."""
MEMORY = 0.3
"""Weight of each new measurement in the learned load time."""


class LoadPrice:
    """Learned load time of LoRA adapters, shared by all adapters of a base model because their sizes are similar."""

    def __init__(self, load_s: float) -> None:
        """Start with the estimate *load_s* in seconds, which is used until the first load is measured."""
        self.load_s = load_s
        self._is_learned = False

    def learn(self, took_s: float) -> None:
        """Learn from a measured load time. The first one replaces the initial estimate, and later ones adjust it."""
        self.load_s = took_s if not self._is_learned else self.load_s + (took_s - self.load_s) * MEMORY
        self._is_learned = True

    def price_s(self, *, holds: bool | None, loadable: bool, failed: bool = False) -> float:
        """Return the extra cost in seconds of a request on a worker that *holds* the adapter. None (unknown) counts as
        held.

        *loadable* is true if the worker can load the adapter on request. *failed* is true if such a load recently
        failed.
        """
        if holds is None or holds:
            return 0.0
        return self.load_s if loadable and not failed else ABSENT_S
