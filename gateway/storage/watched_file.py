"""A file that other programs change."""

import hashlib
from pathlib import Path


class WatchedFile:
    """Detects changes of the content of a file, by reading its path.

    That covers every kind of change: writing in place, renaming over it, or swapping a link on the path, as Kubernetes
    does with a ConfigMap. A new modification time alone is not a change.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: bytes | None = None
        self._seen: bytes | None = None

    def note(self) -> None:
        """Treat the present content as known; call this before reading the file."""
        self._known = self._seen = _fingerprint(self.path)

    def has_changed(self) -> bool:
        """Return True once for each change, at the second call that finds the same content.

        Before that, a program may still be writing. The removal of the file is a change. O(file size).
        """
        fingerprint = _fingerprint(self.path)
        is_stable = fingerprint == self._seen
        self._seen = fingerprint
        if not is_stable or fingerprint == self._known:
            return False
        self._known = fingerprint
        return True


def _fingerprint(path: Path) -> bytes | None:
    """Return a digest of the content; None if there is no regular file. Reading a pipe would consume its content."""
    try:
        return hashlib.blake2b(path.read_bytes()).digest() if path.is_file() else None
    except OSError:
        return None
