"""A lock that lets one process at a time use a file."""

import fcntl
import os
from pathlib import Path


class FileTaken(Exception):
    """Another process holds the lock."""


class FileLock:
    """A lock file beside *path*, locked while the object exists; the kernel releases it when the process ends.

    Raises:
        FileTaken: another process holds it.
        OSError: the lock file cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise FileTaken(path.name) from None

    def release(self) -> None:
        """Release the lock. Call it once."""
        os.close(self._descriptor)
