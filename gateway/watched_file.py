"""A file that others change, and when a change of it may be taken."""

import hashlib
from pathlib import Path


class WatchedFile:
    """Looks at the content of one file, by its path each time.

    So it sees every way in which files are changed: written in place, renamed over, or reached through a link that is
    swapped, as Kubernetes does with a ConfigMap. A file whose time changes and nothing else has not changed.
    """

    def __init__(self, path: Path) -> None:
        """Until it is noted, nothing of the file is known."""
        self.path = path
        self._known: bytes | None = None
        self._seen: bytes | None = None

    def note(self) -> None:
        """Whoever is about to read the file knows what is there at this moment."""
        self._known = self._seen = _fingerprint(self.path)

    def has_changed(self) -> bool:
        """True once for each change, at the second look that finds it the same: until then somebody may be writing.

        That it vanished is a change. O(its size).
        """
        fingerprint = _fingerprint(self.path)
        is_at_rest = fingerprint == self._seen
        self._seen = fingerprint
        if not is_at_rest or fingerprint == self._known:
            return False
        self._known = fingerprint
        return True


def _fingerprint(path: Path) -> bytes | None:
    """None where there is no file to be read. A pipe is none: whoever looks into it takes what is in it."""
    try:
        return hashlib.blake2b(path.read_bytes()).digest() if path.is_file() else None
    except OSError:
        return None
