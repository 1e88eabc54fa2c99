"""How much of a prompt a worker has."""

import msgspec


class Hit(msgspec.Struct, frozen=True, gc=False):
    """Leading blocks of a prompt that a worker can use, and from where."""

    blocks: int
    """All of them, in whichever tier."""
    cpu: int = 0
    """Those of them that have to be loaded from the worker's CPU memory, because they are not on its GPU."""
    disk: int = 0
    shared: int = 0
    """Those that no tier of the worker's own has."""
