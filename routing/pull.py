"""Pull of cached blocks by one worker from another one."""

from typing import Final

from cache_index import WorkerId
from cache_index.native import mypyc_attr
from cache_index.value import Value


@mypyc_attr(acyclic=True)
class Pull(Value):
    """Transfer of cached blocks from the host memory of another worker before a prefill."""

    __match_args__ = ("source", "tokens", "load_s")
    __slots__ = __match_args__

    def __init__(self, source: WorkerId, tokens: float, load_s: float) -> None:
        self.source: Final = source
        """Worker that sends the blocks."""
        self.tokens: Final = tokens
        """Number of prompt tokens in the blocks."""
        self.load_s: Final = load_s
        """Predicted seconds of the transfer."""
