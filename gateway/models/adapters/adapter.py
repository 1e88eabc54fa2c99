"""One LoRA adapter, by the settings."""

import msgspec


class Adapter(msgspec.Struct, frozen=True):
    name: str
    """Name by which workers list and load it."""
    base: str
    """The model that it adapts."""
    path: str | None = None
    """Path at which workers find it; None: only they know."""
    load_on_demand: bool = False
    max_per_worker: int | None = None
    """Number of adapters on a worker from which on one is unloaded before the next is loaded; None: no limit."""

    @property
    def is_loadable(self) -> bool:
        """Whether the gateway may load it on a worker."""
        return self.load_on_demand and self.path is not None
