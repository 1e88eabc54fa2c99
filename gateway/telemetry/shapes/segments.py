"""Files with request shapes in one folder, which are limited in bytes and in age."""

import logging
import secrets
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec

from gateway.telemetry.shapes.layout import SUFFIX, frame

_log = logging.getLogger(__name__)

SEGMENTS = 8
"""Number of files into which the kept bytes and the kept time are divided. The oldest file is deleted as a whole."""


class Segments:
    """Writes frames to files in *directory*, and deletes the oldest file when all together exceed a limit.

    Without *directory*, the files are in a private temporary folder, which `close` deletes. If the folder cannot be
    written, frames are lost, and one warning is logged.
    """

    def __init__(
        self, directory: Path | None, *, max_bytes: int, keep_s: float, wall_clock: Callable[[], float]
    ) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self.keep_s = keep_s
        """Seconds for which frames are kept."""
        self._wall_clock = wall_clock
        self._run = f"{int(wall_clock())}-{secrets.token_hex(4)}"
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._file: IO[bytes] | None = None
        self._begun_at = 0.0
        self._bytes = 0
        self._files: deque[tuple[Path, int, float]] = deque()
        """Complete files, oldest first, with their bytes and the time of their last frame."""
        self._count = 0
        self._is_failing = False

    @property
    def directory(self) -> Path | None:
        """Folder of the files, or None before the first frame in a temporary folder."""
        if self._directory is not None:
            return self._directory
        return None if self._temporary is None else Path(self._temporary.name)

    def write(self, data: bytes) -> bool:
        """Append the frame *data*. Return whether the next frame goes to the same file, so that it can use the names of
        this one.
        """
        try:
            if self._file is None:
                self._begin()
            assert self._file is not None, "a file was begun"
            self._file.write(data)
            self._file.flush()
        except OSError as fault:
            if not self._is_failing:
                _log.warning("Request shapes could not be written and are lost: %s", fault.strerror)
            self._is_failing = True
            self._end()
            return False
        self._bytes += len(data)
        self._is_failing = False
        age_s = self._wall_clock() - self._begun_at
        if self._bytes >= self._max_bytes // SEGMENTS or age_s >= self.keep_s / SEGMENTS:
            self._end()
        return self._file is not None

    def close(self) -> None:
        """Close the current file, and delete the temporary folder if there is one."""
        self._end()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def _begin(self) -> None:
        now = self._wall_clock()
        self._prune(now)
        path = self._folder() / f"{self._run}-{self._count:06d}{SUFFIX}"
        self._count += 1
        file = path.open("xb")
        path.chmod(0o600)
        head = frame(msgspec.json.encode({"version": 1, "run": self._run}), b"")
        file.write(head)
        self._file, self._begun_at, self._bytes = file, now, len(head)

    def _end(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        self._files.append((Path(file.name), self._bytes, self._wall_clock()))
        try:
            file.close()
        except OSError as fault:
            _log.warning("A file with request shapes could not be closed: %s", fault.strerror)

    def _prune(self, now: float) -> None:
        """Delete the oldest files, so that one more file fits."""
        room = self._max_bytes - self._max_bytes // SEGMENTS
        while self._files:
            path, _, last_at = self._files[0]
            if sum(size for _, size, _ in self._files) <= room and now - last_at <= self.keep_s:
                return
            path.unlink(missing_ok=True)
            self._files.popleft()

    def _folder(self) -> Path:
        """Return the folder. At first, create it and adopt the files that an earlier run left in it."""
        if self._directory is None:
            if self._temporary is None:
                self._temporary = tempfile.TemporaryDirectory(prefix="warmgate-shapes-", ignore_cleanup_errors=True)
            return Path(self._temporary.name)
        if not self._count:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in sorted(self._directory.glob(f"*{SUFFIX}")):
                found = path.stat()
                self._files.append((path, found.st_size, found.st_mtime))
            self._prune(self._wall_clock())
        return self._directory
