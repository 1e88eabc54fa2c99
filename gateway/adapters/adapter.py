"""One LoRA adapter, as the settings have it."""

import msgspec


class Adapter(msgspec.Struct, frozen=True):
    name: str
    """As the workers list it, and load it."""
    base: str
    """The model that it adapts."""
    path: str | None = None
    """Where workers find it; None: only they know."""
    load_on_demand: bool = False
    most_per_worker: int | None = None
    """With so many on a worker another one goes before it; None: no limit."""

    @property
    def is_loadable(self) -> bool:
        """Whether a worker may be told to load it."""
        return self.load_on_demand and self.path is not None
