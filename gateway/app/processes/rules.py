"""Values that the supervisor of several processes takes from the settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessRules:
    """Values for the supervisor of a gateway with several processes."""

    processes: int
    host: str
    port: int
    admin: tuple[str, int] | None
    """Host and port of the admin port, or None without one."""
    probes: tuple[str, int] | None
    variables: Mapping[str, str]
    """Environment variables for the processes, with the share of each process in the limits of the server."""
    shapes: str | None
    """Folder of recorded request shapes, in which each process gets a folder of its own."""
    store_url: str | None
    store_file: Path | None
    """SQLite file of the store, or None if the store is a server or not configured."""
    stop_s: float
    """Seconds that requests have after a stop signal."""
    is_log_json: bool

    def variables_of(self, number: int, store_url: str | None) -> dict[str, str]:
        """Return the variables of the process *number*. *store_url* replaces the configured one."""
        variables = dict(self.variables)
        if self.shapes is not None:
            variables["WARMGATE_REQUEST_SHAPES__DIRECTORY"] = f"{self.shapes}/process-{number}"
        if store_url is not None:
            variables["WARMGATE_STORE__URL"] = store_url
        return variables
