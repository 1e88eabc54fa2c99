"""Discovery of workers that are listed in a file. The file can be rewritten at any time."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gateway.storage.watched_file import WatchedFile
from gateway.workers.discovery.discovery import Discovery
from gateway.workers.discovery.source import DiscoveryTools, OnRefused, Parse, WorkerSource
from gateway.workers.worker_spec import WorkersError, WorkerSpec

INTERVAL_S = 0.5
"""Seconds between two reads of a worker file. A change is applied within a second, as soon as two reads agree."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """File that lists workers."""

    kind: ClassVar[str] = "workers_file"
    path: str

    def discovery(self, source: WorkerSource, tools: DiscoveryTools, on_refused: OnRefused) -> Discovery:  # noqa: ARG002
        return FileDiscovery(Path(self.path), tools.parse, on_refused=on_refused)


class FileDiscovery:
    """Discovery that watches the worker file at *path*. Implements `gateway.workers.discovery.discovery.Discovery`.

    While the file does not exist, there are no workers. *on_refused* is called with the reasons if the content of the
    file cannot be applied.
    """

    def __init__(
        self,
        path: Path,
        parse: Parse,
        *,
        on_refused: OnRefused,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._path = path
        self._parse = parse
        self._on_refused = on_refused
        self._interval_s = interval_s

    async def watch(self) -> AsyncGenerator[tuple[WorkerSpec, ...], None]:
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

    async def _read(self) -> tuple[WorkerSpec, ...] | None:
        """Return the workers that the file lists, or None if the content of the file cannot be applied."""
        try:
            return await asyncio.to_thread(read_workers, self._path, self._parse)
        except WorkersError as fault:
            self._on_refused(fault.sentences)
            return None


def read_workers(path: Path, parse: Parse) -> tuple[WorkerSpec, ...]:
    """Return the workers that the file at *path* lists.

    Raises:
        WorkersError: if the file is missing, cannot be read, or is not a list of workers.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise WorkersError([f"{path} does not exist."]) from None
    except OSError as fault:
        raise WorkersError([f"{path} cannot be read: {fault.strerror}."]) from None
    return parse(content, path)
