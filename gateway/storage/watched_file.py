"""Detection of changes of a file that other programs write."""

import hashlib
from pathlib import Path


class WatchedFile:
    """Detector of changes of the content at a file path.

    Every kind of change is detected: writing in place, replacing the file by a rename, or switching a symbolic link in
    its path, as Kubernetes does for a ConfigMap. A new modification time with the same content is not a change.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: bytes | None = None
        self._seen: bytes | None = None

    def note(self) -> None:
        """Remember the current content of the file as known. Call this before reading the file."""
        self._known = self._seen = _fingerprint(self.path)

    def has_changed(self) -> bool:
        """Return True once per change, at the second call in a row that finds the same new content.

        The first call is ignored because another program may still be writing. Removing the file counts as a change.
        O(file size).
        """
        fingerprint = _fingerprint(self.path)
        is_stable = fingerprint == self._seen
        self._seen = fingerprint
        if not is_stable or fingerprint == self._known:
            return False
        self._known = fingerprint
        return True


def _fingerprint(path: Path) -> bytes | None:
    """Return a digest of the file's content, or None if *path* is not a regular file.

    Reading a pipe would consume its content.
    """
    try:
        return hashlib.blake2b(path.read_bytes()).digest() if path.is_file() else None
    except OSError:
        return None
