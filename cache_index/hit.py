"""How much of a prompt a worker has."""

from typing import Final

from cache_index.value import Value


class Hit(Value):
    """Leading blocks of a prompt that a worker can use, and from where."""

    __match_args__ = ("blocks", "cpu", "disk", "shared")
    __slots__ = __match_args__

    def __init__(
        self,
        blocks: int,
        cpu: int = 0,
        disk: int = 0,
        shared: int = 0,
    ) -> None:
        self.blocks: Final = blocks
        """All of them, in whichever tier."""
        self.cpu: Final = cpu
        """Those of them that have to be loaded from the worker's CPU memory, because they are not on its GPU."""
        self.disk: Final = disk
        self.shared: Final = shared
        """Those that no tier of the worker's own has."""
