"""Source of the settings, and the decision when to read it again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

from gateway.settings import Settings, environment, load
from gateway.storage.watched_file import WatchedFile

_log = logging.getLogger(__name__)

T = TypeVar("T")

INTERVAL_S = 0.5
"""Seconds between two looks at the file. A change counts when two looks find the same, so within a second."""


def process_environment() -> Mapping[str, str]:
    """Return the variables of this process."""
    return environment()


def load_settings(path: Path | None) -> Settings:
    """Return the settings of the file at *path* and of the variables of this process.

    Raises:
        SettingsError: a sentence for every fault that was found.
    """
    return load(path, environment())


class ConfigSource:
    """One file, or none, and the variables of *environ* over it."""

    def __init__(self, path: Path | None, environ: Mapping[str, str]) -> None:
        """No I/O."""
        self._path = path
        self._environ = environ
        self._file = None if path is None else WatchedFile(path)
        self.warnings: tuple[str, ...] = ()
        """A sentence for every deprecated setting that was there when it was last loaded."""

    @property
    def name(self) -> str:
        """The path of the file as it was given; ``environment`` without one."""
        return "environment" if self._path is None else str(self._path)

    def load(self) -> Settings:
        """The settings as they are at this moment, which are known from then on.

        Raises:
            SettingsError: a sentence for every fault that was found.
        """
        # Commands of which this is no part should not wait for what it imports.
        from gateway.app.start_faults import refuse_faulty  # noqa: PLC0415

        self.warnings = ()
        if self._file is not None:
            self._file.note()
        warnings: list[str] = []
        settings = load(self._path, self._environ, warn=warnings.append)
        refuse_faulty(settings)
        self.warnings = tuple(warnings)
        return settings

    def log_warnings(self) -> None:
        """Log what `warnings` says."""
        for warning in self.warnings:
            _log.warning("%s", warning)

    def has_changed(self) -> bool:
        """True once for each change of the file since it was loaded, when it has come to rest."""
        return self._file is not None and self._file.has_changed()


class Reloader(Generic[T]):
    """Calls *reload* when it is asked to, and when the file of *configuration* has changed; once at a time."""

    def __init__(
        self,
        configuration: ConfigSource,
        reload: Callable[[Callable[[], Settings]], Awaitable[T]],
        *,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._configuration = configuration
        self._reload = reload
        self._interval_s = interval_s
        self._asked = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()

    def ask(self) -> None:
        """Reload soon, whether or not the file has changed."""
        self._asked.set()

    async def reload(self) -> T:
        """Reload now, whether or not the file has changed; what comes of it."""
        async with self._one_at_a_time:
            outcome = await self._reload(self._configuration.load)
            self._configuration.log_warnings()
            return outcome

    async def run(self) -> None:
        """Reload until cancelled."""
        while True:
            if await self._is_asked() or await asyncio.to_thread(self._configuration.has_changed):
                await self.reload()

    async def _is_asked(self) -> bool:
        """Whether there is a query within the interval."""
        try:
            async with asyncio.timeout(self._interval_s):
                await self._asked.wait()
        except TimeoutError:
            return False
        self._asked.clear()
        return True
