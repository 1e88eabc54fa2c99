"""Lock file that allows only one process at a time to use a data file."""

import fcntl
import os
from pathlib import Path


class FileTaken(Exception):
    """Another process already holds the lock on the file."""


class FileLock:
    """Lock on a file next to *path*, held until `release`. The kernel also releases the lock when the process ends.

    Raises:
        FileTaken: if another process holds the lock.
        OSError: if the lock file cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self.descriptor)
            raise FileTaken(path.name) from None

    def release(self) -> None:
        """Release the lock on the file. Call this method only once. Processes that inherited the descriptor keep the
        lock until they end.
        """
        os.close(self.descriptor)
