"""LoRA adapter as given in the settings."""

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
    """Maximum number of LoRA adapters per worker, or None for no limit. At the limit, one adapter is unloaded first."""

    @property
    def is_loadable(self) -> bool:
        """Whether the gateway is allowed to ask workers to load the LoRA adapter."""
        return self.load_on_demand and self.path is not None
