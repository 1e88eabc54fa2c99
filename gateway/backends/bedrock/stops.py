"""Stop strings that the gateway itself applies, because the model does not accept them."""


class StopGuard:
    """Filter that passes text through up to the first stop string, even if that string is split over several pieces."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        """Create a filter for the stop strings *stops*, which must not contain empty strings. Without stop strings, all
        text passes unchanged.
        """
        self._stops = stops
        self._held = ""
        self._has_stopped = False

    @property
    def has_stopped(self) -> bool:
        """Return whether a stop string was found. All later text is discarded."""
        return self._has_stopped

    def feed(self, text: str) -> str:
        """Return the text that can be sent to the client. A possible beginning of a stop string is held back."""
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
        """Return the text that is still held back at the end of a text without a stop string."""
        held, self._held = self._held, ""
        return held


def overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of *text* that is a proper beginning of *stop*. O(len(stop) squared)."""
    return next((size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0)
