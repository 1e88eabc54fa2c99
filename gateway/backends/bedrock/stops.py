"""Stop strings that the gateway has to find itself, because the model does not take them."""


class StopGuard:
    """Lets text pass up to the first of some stop strings, which never shows, however the text is cut into pieces."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        """None of *stops* is empty. With no stops all text passes at once."""
        self._stops = stops
        self._held = ""
        self._has_stopped = False

    @property
    def has_stopped(self) -> bool:
        """A stop string came: whatever is fed after it is nothing."""
        return self._has_stopped

    def feed(self, text: str) -> str:
        """Return the text that may be shown; a possible beginning of a stop string is held back."""
        if self._has_stopped:
            return ""
        held = self._held + text
        # The one that is complete first, as a model that knew them would have stopped there.
        found = [(at + len(stop), at) for stop in self._stops if (at := held.find(stop)) >= 0]
        if found:
            self._has_stopped, self._held = True, ""
            return held[: min(found)[1]]
        keep = max((overlap(held, stop) for stop in self._stops), default=0)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep]

    def rest(self) -> str:
        """Return what was held back, at the end of a text without a stop string."""
        held, self._held = self._held, ""
        return held


def overlap(text: str, stop: str) -> int:
    """Characters at the end of *text* that begin *stop*, fewer than all of it. O(stop squared), and stops are short."""
    return next((size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0)
