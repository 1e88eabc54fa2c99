"""Models of the tool loops that used routes last."""

from typing import Final

MAX_LOOPS: Final = 20_000
"""Maximum number of loops in memory, about 150 bytes each. Beyond it, the loop that was used least recently is
forgotten.
"""


class ToolLoops:
    """Model of each loop, by the digest of the loop."""

    def __init__(self, max_loops: int = MAX_LOOPS) -> None:
        self._models: dict[bytes, str] = {}
        self._max_loops = max_loops

    def __len__(self) -> int:
        return len(self._models)

    def model_of(self, loop: bytes) -> str | None:
        """Return the model that answered the last request of *loop*, or None if the loop is not known."""
        return self._models.get(loop)

    def keep(self, loop: bytes, model: str) -> None:
        """Remember that *model* answers a request of *loop*."""
        self._models.pop(loop, None)
        while len(self._models) >= self._max_loops:
            del self._models[next(iter(self._models))]
        self._models[loop] = model
