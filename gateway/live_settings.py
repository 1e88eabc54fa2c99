"""The settings in force: what is configured, and the workers that were found; changed as a whole or not at all."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gateway.discovery.discovery import Discovery
from gateway.discovery.file import read_workers
from gateway.reloads import Outcome, Reloaded, Reloads
from gateway.settings import ModelSettings, Settings, SettingsError, WorkerSettings, applicable, with_found

_log = logging.getLogger(__name__)

Workers = tuple[WorkerSettings, ...]
OnRefused = Callable[[Sequence[str]], None]


@dataclass(slots=True, eq=False)
class _Search:
    """What is found for one model."""

    file: str | None
    """Where, as the settings have it."""
    sets: AsyncGenerator[Workers, None]
    last: Workers
    """The last set that was found."""
    taken: Workers | None = None
    """The one in force; not the last, if that was refused. None: none of them has been in force."""
    task: "asyncio.Task[None] | None" = None

    async def end(self) -> None:
        if self.task is None:
            await self.sets.aclose()
        else:
            self.task.cancel()  # and with it the sets are closed


class LiveSettings:
    """Hands whole settings to *take*, again whenever they change.

    *take* puts them in force in one step, or raises and changes nothing. *discover* makes the discovery of a model,
    given whom to tell why something that was found cannot be taken.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        take: Callable[[Settings], None],
        discover: Callable[[ModelSettings, OnRefused], Discovery],
        reloads: Reloads,
    ) -> None:
        """*settings* are in force already, but for what is to be found."""
        self._started_with = self._configured = settings
        self._take = take
        self._discover = discover
        self._reloads = reloads
        self._searches: dict[str, _Search] = {}
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def configured(self) -> Settings:
        """The settings in force, without the workers that were found."""
        return self._configured

    async def find(self) -> None:
        """Put in force what is found at first. To be called once, before the others."""
        self._count_for(self._configured)
        searches = self._searches = await self._begin(self._configured.models)
        try:
            self._put_in_force(self._configured, searches)
        except SettingsError:  # then as many of them as go together, the first ones first
            for search in searches.values():
                search.taken = ()
            for name, search in searches.items():
                self._found(name, search)

    async def run(self) -> None:
        """Follow what is found until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            self._follow()
            await asyncio.Event().wait()

    async def reload(self, load: Callable[[], Settings]) -> Reloaded:
        """Put what *load* gives in force, if all of it can be used. *load* may take its time: it gets a thread."""
        try:
            return await self._reload(await asyncio.to_thread(load))
        except SettingsError as fault:
            self._reloads.count("refused")
            _log.error("the configuration is not taken, nothing has changed: %s", " ".join(fault.sentences))
            return Reloaded("refused", tuple(fault.sentences))
        except Exception:  # noqa: BLE001  # whatever it is, the gateway goes on with what it has
            self._reloads.count("refused")
            _log.exception("the configuration is not taken, nothing has changed")
            return Reloaded("refused", ("The log says why.",))

    # ---- the configuration

    async def _reload(self, wanted: Settings) -> Reloaded:
        change = applicable(self._started_with, wanted)
        outcome: Outcome = "unchanged"
        if change.settings != self._configured or any(
            search.last != search.taken for search in self._searches.values()
        ):
            await self._change_to(change.settings)
            outcome = "applied"
            _log.info("the configuration has been read again and is in force")
        self._reloads.count(outcome)
        if change.needs_restart and change.needs_restart != self._reloads.needs_restart:
            _log.warning("what was changed here needs a restart: %s", ", ".join(change.needs_restart))
        self._reloads.needs_restart = change.needs_restart
        return Reloaded(outcome, needs_restart=change.needs_restart)

    async def _change_to(self, settings: Settings) -> None:
        staying = {m.name: self._searches[m.name] for m in settings.models if self._is_searched(m)}
        others = [model for model in settings.models if model.name not in staying]
        await asyncio.to_thread(_check_files, others)
        added = await self._begin(others)
        try:
            self._put_in_force(settings, staying | added)
        except BaseException:
            for search in added.values():
                await search.end()
            raise
        former, self._searches = self._searches, staying | added
        self._count_for(settings)
        self._follow()
        for name in former.keys() - staying.keys():
            await former[name].end()

    def _put_in_force(self, settings: Settings, searches: Mapping[str, _Search]) -> None:
        """Take *settings* with the last sets that were found, or at least with those of them that are in force.

        Raises:
            SettingsError: not even those agree with the settings.
        """
        last = {name: search.last for name, search in searches.items()}
        taken = {name: search.last if search.taken is None else search.taken for name, search in searches.items()}
        try:
            sets, whole = last, with_found(settings, last)
        except SettingsError:
            sets, whole = taken, with_found(settings, taken)
        self._take(whole)
        self._configured = settings
        for name, search in searches.items():
            search.taken = sets[name]

    # ---- what is found

    async def _begin(self, models: Sequence[ModelSettings]) -> dict[str, _Search]:
        searches = {}
        for model in models:
            sets = self._discover(model, partial(self._refused, model.name)).watch()
            searches[model.name] = _Search(model.workers_file, sets, last=await anext(sets))
        return searches

    def _is_searched(self, model: ModelSettings) -> bool:
        search = self._searches.get(model.name)
        return search is not None and search.file == model.workers_file

    def _count_for(self, settings: Settings) -> None:
        self._reloads.follow([model.name for model in settings.models if model.workers_file is not None])

    def _follow(self) -> None:
        """Begin to follow what nobody follows yet; before `run` nothing is followed."""
        for name, search in self._searches.items():
            if search.task is None and self._tasks is not None:
                search.task = self._tasks.create_task(self._follow_one(name, search))

    async def _follow_one(self, name: str, search: _Search) -> None:
        try:
            async with aclosing(search.sets) as sets:
                async for workers in sets:
                    search.last = workers
                    self._found(name, search)
        except Exception:  # noqa: BLE001  # what is found for one model must not end the gateway
            _log.exception("the workers of model %s are not followed any more", name)

    def _found(self, name: str, search: _Search) -> None:
        if self._searches.get(name) is not search:
            return  # a reload has ended it a moment ago
        if search.last == search.taken:
            self._reloads.count_found(name, "unchanged")
            return
        sets = {other: each.taken or () for other, each in self._searches.items()} | {name: search.last}
        try:
            self._take(with_found(self._configured, sets))
        except SettingsError as fault:
            self._refused(name, fault.sentences)
            return
        search.taken = search.last
        self._reloads.count_found(name, "applied")
        _log.info("model %s: %d workers were found", name, len(search.last))

    def _refused(self, name: str, sentences: Sequence[str]) -> None:
        self._reloads.count_found(name, "refused")
        _log.error("model %s: what was found is not taken, nothing has changed: %s", name, " ".join(sentences))


def _check_files(models: Sequence[ModelSettings]) -> None:
    """Look into the files of workers that a configuration brings; one that is not there yet may come.

    Raises:
        SettingsError: a sentence for every fault of the first one that is no good.
    """
    for model in models:
        if model.workers_file is not None and (path := Path(model.workers_file)).exists():
            read_workers(path)
