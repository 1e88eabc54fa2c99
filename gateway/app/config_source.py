"""Source of the settings, which also detects configuration changes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

from gateway.settings import Settings, environment, load, masked
from gateway.settings.json_schema import published_schema, written
from gateway.storage.watched_file import WatchedFile

_log = logging.getLogger(__name__)

T = TypeVar("T")

INTERVAL_S = 0.5
"""Seconds between two checks of the settings file. A change applies when two checks in a row find the same content."""


def process_environment() -> Mapping[str, str]:
    """Return the environment variables of this process."""
    return environment()


def load_settings(path: Path | None) -> Settings:
    """Return the settings from the file at *path* and from environment variables.

    Raises:
        SettingsError: with a sentence for every error found.
    """
    return load(path, environment())


def json_schema() -> str:
    """Return the JSON Schema of a settings file."""
    return written(published_schema())


class ConfigSource:
    """Optional settings file. Environment variables in *environ* override its values."""

    def __init__(self, path: Path | None, environ: Mapping[str, str]) -> None:
        """Create a source of settings without any I/O."""
        self._path = path
        self._environ = environ
        self._file = None if path is None else WatchedFile(path)
        self.warnings: tuple[str, ...] = ()
        """One sentence for every deprecated setting found when the settings were last loaded."""

    @property
    def name(self) -> str:
        """Path of the settings file as given, or ``environment`` if there is no file."""
        return "environment" if self._path is None else str(self._path)

    def load(self) -> Settings:
        """Load the settings, and remember the current content of the file as known.

        Raises:
            SettingsError: with a sentence for every error found.
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

    def shown(self) -> str:
        """Load the settings, and return them as YAML with secrets masked.

        Raises:
            SettingsError: a sentence for every fault that was found.
        """
        return masked(self.load())

    def summary(self) -> str:
        """Load the settings, and return one line that summarizes what they configure.

        Raises:
            SettingsError: a sentence for every fault that was found.
        """
        settings = self.load()
        workers = sum(len(model.workers) for model in settings.models)
        counts = {"model": len(settings.models), "listed worker": workers, "team": len(settings.teams)}
        return ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts.items())

    def log_warnings(self) -> None:
        """Log every warning about deprecated settings."""
        for warning in self.warnings:
            _log.warning("%s", warning)

    def has_changed(self) -> bool:
        """Return True once for each change of the settings file, as soon as its content is stable."""
        return self._file is not None and self._file.has_changed()


class Reloader(Generic[T]):
    """Reload of the configuration on request and on file changes. At most one call of *reload* runs at a time."""

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
        """Request a reload of the configuration in the background, even if the settings file is unchanged."""
        self._asked.set()

    async def reload(self) -> T:
        """Reload the configuration now, even if the settings file is unchanged, and return the outcome."""
        async with self._one_at_a_time:
            outcome = await self._reload(self._configuration.load)
            self._configuration.log_warnings()
            return outcome

    async def run(self) -> None:
        """Reload the configuration on request and on file changes until canceled."""
        while True:
            if await self._is_asked() or await asyncio.to_thread(self._configuration.has_changed):
                await self.reload()

    async def _is_asked(self) -> bool:
        """Wait for up to one check interval, and return whether a reload was requested."""
        try:
            async with asyncio.timeout(self._interval_s):
                await self._asked.wait()
        except TimeoutError:
            return False
        self._asked.clear()
        return True
