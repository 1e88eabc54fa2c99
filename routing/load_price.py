"""What it costs, in seconds, that a worker has to load a LoRA adapter before it can serve a request for it."""

ABSENT_S = 3600.0
"""Of a worker that does not have it and cannot be told to load it: it is the last to be asked."""
MEMORY = 0.3
"""What one load counts in the time that is believed."""


class LoadPrice:
    """Learnt from loads. One for all adapters of a base model: they are of like size."""

    def __init__(self, load_s: float) -> None:
        """*load_s* is believed until the first load."""
        self.load_s = load_s
        self._is_learnt = False

    def learn(self, took_s: float) -> None:
        """A load took *took_s*. The first one replaces the belief, later ones correct it."""
        self.load_s = took_s if not self._is_learnt else self.load_s + (took_s - self.load_s) * MEMORY
        self._is_learnt = True

    def of(self, *, holds: bool | None, loadable: bool, failed: bool = False) -> float:
        """For a request to a worker that *holds* the adapter, None: nobody knows, and then it is taken to.

        *loadable*: it could be told to load it. *failed*: it was, lately, and could not.
        """
        if holds is None or holds:
            return 0.0
        return self.load_s if loadable and not failed else ABSENT_S
