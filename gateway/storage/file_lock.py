"""A file that one process at a time may work with, as long as it lives."""

import fcntl
import os
from pathlib import Path


class FileTaken(Exception):
    """Another process has it."""


class FileLock:
    """Held from its making on, by a lock file beside *path*; the system lets it go however the process ends.

    Raises:
        FileTaken: another process holds it.
        OSError: the lock file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise FileTaken(path.name) from None

    def release(self) -> None:
        """To be called once."""
        os.close(self._descriptor)
