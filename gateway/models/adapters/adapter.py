"""One LoRA adapter as configured."""

import msgspec


class Adapter(msgspec.Struct, frozen=True):
    name: str
    """Name under which workers list and load the LoRA adapter."""
    base: str
    """Name of the base model that the LoRA adapter modifies."""
    path: str | None = None
    """Path from which workers load the LoRA adapter, or None if the gateway does not know the path."""
    load_on_demand: bool = False
    max_per_worker: int | None = None
    """Maximum number of LoRA adapters per worker. One is unloaded to make room. None means no limit."""

    @property
    def is_loadable(self) -> bool:
        """Whether the gateway may ask workers to load the LoRA adapter."""
        return self.load_on_demand and self.path is not None
