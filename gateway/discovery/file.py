"""Workers that a file lists, which others may rewrite at any time."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

from gateway.settings import SettingsError, WorkerSettings, workers_in
from gateway.watched_file import WatchedFile

INTERVAL_S = 0.5
"""Between two looks; a change is taken at the second that finds it the same, so within a second."""


class FileDiscovery:
    """Follows the file at *path*; implements `gateway.discovery.discovery.Discovery`.

    No file yet means no workers yet. *on_refused* is told, in sentences, why the file that is there is not taken.
    """

    def __init__(
        self, path: Path, *, on_refused: Callable[[Sequence[str]], None], interval_s: float = INTERVAL_S
    ) -> None:
        self._path = path
        self._on_refused = on_refused
        self._interval_s = interval_s

    async def watch(self) -> AsyncGenerator[tuple[WorkerSettings, ...], None]:
        """See `Discovery.watch`."""
        # In threads: a file may lie on a file system that is slow, or hangs.
        file = WatchedFile(self._path)
        await asyncio.to_thread(file.note)
        is_there = await asyncio.to_thread(self._path.exists)
        yield (await self._read() if is_there else None) or ()
        while True:
            await asyncio.sleep(self._interval_s)
            if await asyncio.to_thread(file.has_changed):
                workers = await self._read()
                if workers is not None:
                    yield workers

    async def _read(self) -> tuple[WorkerSettings, ...] | None:
        """What the file lists; None if it cannot be taken."""
        try:
            return await asyncio.to_thread(read_workers, self._path)
        except SettingsError as fault:
            self._on_refused(fault.sentences)
            return None


def read_workers(path: Path) -> tuple[WorkerSettings, ...]:
    """The workers that the file at *path* lists.

    Raises:
        SettingsError: there is no such file, it cannot be read, or it is no list of workers.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise SettingsError([f"{path} is not there."]) from None
    except OSError as fault:
        raise SettingsError([f"{path} cannot be read: {fault.strerror}."]) from None
    return workers_in(content, path)
