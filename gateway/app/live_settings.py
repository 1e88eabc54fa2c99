"""Settings in effect, with workers that were discovered or that were added with the admin API.

A change of settings or workers applies completely or not at all.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

from gateway.app.mapping.workers import check_source, model_workers, sources_of
from gateway.protocol.errors import StoreUnavailable
from gateway.settings import Settings, SettingsError, applicable
from gateway.telemetry.reloads import Outcome, Reloaded, Reloads
from gateway.tenancy.teams.added_worker import AddedWorker
from gateway.workers.added_workers import KnownWorkers, LeftOut, Workers, admission
from gateway.workers.discovery.discovery import Discovery
from gateway.workers.discovery.file import FileSource
from gateway.workers.discovery.source import WorkerSource
from gateway.workers.worker_spec import ModelWorkers, WorkersError

_log = logging.getLogger(__name__)

FAULTS = (SettingsError, WorkersError)
"""Exceptions for settings or discovered workers that cannot be used. Each contains sentences that explain why."""

Take = Callable[[Settings, Sequence[ModelWorkers]], None]
"""Function that applies settings and all workers in one step. If it raises an error, nothing has changed."""
OnRefused = Callable[[Sequence[str]], None]


@dataclass(frozen=True, slots=True)
class InForce:
    """Settings in effect, and the workers listed in worker files."""

    settings: Settings
    listed: Mapping[str, Workers] = field(default_factory=dict)
    """Workers listed in worker files, by model name."""


OnApplied = Callable[[InForce, InForce, str | None], Awaitable[None]]


@dataclass(slots=True, eq=False)
class _Search:
    """Discovery of workers at one source, with its latest results."""

    sets: AsyncGenerator[Workers, None]
    last: Workers
    """Last set of workers that the discovery source reported."""
    taken: Workers | None = None
    """Set of workers in use, which is older than `last` if `last` was rejected. None before the first set is in use."""
    task: "asyncio.Task[None] | None" = None

    async def end(self) -> None:
        if self.task is None:
            await self.sets.aclose()
        else:
            self.task.cancel()  # and with it the sets are closed


class LiveSettings:
    """Settings and discovered workers in effect. Whenever one of them changes, *take* applies them.

    The function *discover* returns the discovery of a source. Its second argument is called with the reasons when a
    discovered set of workers is rejected.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        take: Take,
        discover: Callable[[WorkerSource, OnRefused], Discovery],
        reloads: Reloads,
        on_applied: OnApplied | None = None,
    ) -> None:
        """Start with *settings*, which are already in effect except for discovered workers.

        After each applied change, *on_applied* is called with the previous state, the new state, and the worker file
        that caused the change. The file is None for a change of the settings.
        """
        self._on_applied = on_applied
        self._started_with = self._configured = settings
        self._take = take
        self._discover = discover
        self._reloads = reloads
        self._searches: dict[WorkerSource, _Search] = {}
        self._has_found = False
        self._added: Sequence[AddedWorker] = ()
        self._left_out: Mapping[str, LeftOut] = {}
        """Workers added with the admin API that are not in use, by name, with the reason."""
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def configured(self) -> Settings:
        """Settings in effect, without workers that were discovered."""
        return self._configured

    @property
    def in_force(self) -> InForce:
        """Settings in effect, with the workers listed in worker files."""
        files = [(source, search) for source, search in self._searches.items() if source.kind == "workers_file"]
        return InForce(self._configured, {source.model: search.taken or () for source, search in files})

    async def find(self) -> None:
        """Discover workers once and apply the first results. Call this method once, before the other methods."""
        self._count_for(self._configured)
        searches = self._searches = await self._begin(_sources(self._configured))
        self._has_found = True
        try:
            self._put_in_force(self._configured, searches)
        except WorkersError:  # then as many of them as go together, the first ones first
            for search in searches.values():
                search.taken = ()
            for source, search in searches.items():
                self._found(source, search)

    async def run(self) -> None:
        """Apply the results of worker discovery until canceled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            self._follow()
            await asyncio.Event().wait()

    async def reload(self, load: Callable[[], Settings]) -> Reloaded:
        """Load new settings with *load* and apply them if they are valid.

        The function *load* runs in a thread and may block.
        """
        try:
            return await self._reload(await asyncio.to_thread(load))
        except FAULTS as fault:
            self._reloads.count("refused")
            _log.error("the configuration was rejected; the previous one stays: %s", " ".join(fault.sentences))
            return Reloaded("refused", tuple(fault.sentences))
        except Exception:  # noqa: BLE001  # whatever it is, the gateway goes on with what it has
            self._reloads.count("refused")
            _log.exception("the configuration was rejected; the previous one stays")
            return Reloaded("refused", ("The gateway's log contains the reason.",))

    # ---- workers that an administrator adds

    def known_workers(self) -> KnownWorkers:
        """Return the workers in use that are listed in the settings or were discovered."""
        return KnownWorkers(
            model_workers(self._configured.models),
            {source: each.taken or () for source, each in self._searches.items()},
        )

    def have_added(self, added: Mapping[str, AddedWorker]) -> None:
        """Use the workers *added* in addition to listed and discovered workers. Never raises an exception.

        Running requests of removed workers continue.
        """
        self._added = tuple(added.values())
        if not self._has_found:
            return
        known = self.known_workers()
        try:
            self._take(self._configured, self._whole(self._configured, known.found))
        except Exception:  # noqa: BLE001  # whatever it is, the gateway goes on with what it has
            _log.exception("the workers added through the admin API were rejected, and nothing has changed")

    def _whole(self, settings: Settings, sets: Mapping[WorkerSource, Workers]) -> Sequence[ModelWorkers]:
        """Return all models of *settings* with their listed workers, the discovered workers *sets*, and all usable
        added workers.

        Raises:
            WorkersError: if listed and discovered workers contradict each other.
        """
        admitted = admission(KnownWorkers(model_workers(settings.models), sets), self._added)
        for name in sorted(admitted.left_out):
            if admitted.left_out[name] != self._left_out.get(name):
                text = "worker %s, which was added through the admin API, is not in use: %s"
                _log.warning(text, name.partition(" ")[0], admitted.left_out[name].reason)
        self._left_out = admitted.left_out
        return admitted.models

    # ---- the configuration

    async def _reload(self, wanted: Settings) -> Reloaded:
        change = applicable(self._started_with, wanted)
        outcome: Outcome = "unchanged"
        former = self.in_force
        if change.settings != self._configured or any(
            search.last != search.taken for search in self._searches.values()
        ):
            await self._change_to(change.settings)
            outcome = "applied"
            _log.info("the configuration has been reloaded and is in effect")
        self._reloads.count(outcome)
        if change.needs_restart and change.needs_restart != self._reloads.needs_restart:
            _log.warning("these changed settings need a restart: %s", ", ".join(change.needs_restart))
        self._reloads.needs_restart = change.needs_restart
        if outcome == "applied":
            await self._applied(former)
        return Reloaded(outcome, needs_restart=change.needs_restart)

    async def _applied(self, former: InForce, file: str | None = None) -> None:
        if self._on_applied is None:
            return
        try:
            await self._on_applied(former, self.in_force, file)
        except StoreUnavailable:
            _log.warning("the configuration change is missing from the audit log because the store is unavailable")

    async def _change_to(self, settings: Settings) -> None:
        sources = _sources(settings)
        others = [source for source in sources if source not in self._searches]
        await asyncio.to_thread(_check, others)
        added = await self._begin(others)
        searches = {source: added.get(source) or self._searches[source] for source in sources}
        try:
            self._put_in_force(settings, searches)
        except BaseException:
            for search in added.values():
                await search.end()
            raise
        former, self._searches = self._searches, searches
        self._count_for(settings)
        self._follow()
        for source in former.keys() - searches.keys():
            await former[source].end()

    def _put_in_force(self, settings: Settings, searches: Mapping[WorkerSource, _Search]) -> None:
        """Apply *settings* with the last discovered workers or, if these do not fit, with those in use.

        Raises:
            WorkersError: if the discovered workers in use do not fit the settings either.
        """
        last = {source: search.last for source, search in searches.items()}
        taken = {source: search.last if search.taken is None else search.taken for source, search in searches.items()}
        try:
            sets, whole = last, self._whole(settings, last)
        except WorkersError:
            sets, whole = taken, self._whole(settings, taken)
        self._take(settings, whole)
        self._configured = settings
        for source, search in searches.items():
            search.taken = sets[source]

    # ---- what is found

    async def _begin(self, sources: Sequence[WorkerSource]) -> dict[WorkerSource, _Search]:
        """Start discovery at all *sources* in parallel, and wait for the first result of each source."""
        begun = [self._discover(source, partial(self._refused, source.model)).watch() for source in sources]
        try:
            first = await asyncio.gather(*(_first(sets) for sets in begun))
        except BaseException:
            for sets in begun:
                await sets.aclose()
            raise
        return {source: _Search(sets, last=last) for source, sets, last in zip(sources, begun, first, strict=True)}

    def _count_for(self, settings: Settings) -> None:
        self._reloads.follow([model.name for model in settings.models if sources_of(model)])

    def _follow(self) -> None:
        """Start a background task for each source that has none yet. Before `run` is called, do nothing."""
        for source, search in self._searches.items():
            if search.task is None and self._tasks is not None:
                search.task = self._tasks.create_task(self._follow_one(source, search))

    async def _follow_one(self, source: WorkerSource, search: _Search) -> None:
        try:
            async with aclosing(search.sets) as sets:
                async for workers in sets:
                    former = self.in_force
                    search.last = workers
                    self._found(source, search)
                    if self.in_force.listed != former.listed:
                        await self._applied(former, source.where.path if isinstance(source.where, FileSource) else None)
        except Exception:  # noqa: BLE001  # what is found for one model must not end the gateway
            _log.exception("worker discovery for model %s has stopped", source.model)

    def _found(self, source: WorkerSource, search: _Search) -> None:
        if self._searches.get(source) is not search:
            return  # a reload has ended it a moment ago
        if search.last == search.taken:
            self._reloads.count_found(source.model, "unchanged")
            return
        taken = {other: each.taken or () for other, each in self._searches.items()} | {source: search.last}
        last = {other: each.last for other, each in self._searches.items()}
        try:
            sets = self._take_found(taken, last)
        except FAULTS as fault:
            self._refused(source.model, fault.sentences)
            return
        for other, each in self._searches.items():
            each.taken = sets[other]
        self._reloads.count_found(source.model, "applied")
        _log.info("model %s: %d workers were found", source.model, len(search.last))

    def _take_found(
        self, taken: Mapping[WorkerSource, Workers], last: Mapping[WorkerSource, Workers]
    ) -> Mapping[WorkerSource, Workers]:
        """Apply the worker sets *taken*, or the sets *last* if the sets in *taken* contradict each other.

        Return the applied sets.

        Two models may share a worker. When the worker moves, the sets of the two models contradict each other until
        both have been updated.

        Raises:
            WorkersError: if neither can be applied, with the reasons for *taken*.
        """
        try:
            self._take(self._configured, self._whole(self._configured, taken))
        except FAULTS as fault:
            try:
                self._take(self._configured, self._whole(self._configured, last))
            except FAULTS:
                raise fault from None
            return last
        return taken

    def _refused(self, name: str, sentences: Sequence[str]) -> None:
        self._reloads.count_found(name, "refused")
        _log.error("model %s: the workers found were rejected; the old workers stay: %s", name, " ".join(sentences))


async def _first(sets: AsyncGenerator[Workers, None]) -> Workers:
    return await anext(sets)


def _sources(settings: Settings) -> list[WorkerSource]:
    return [source for model in settings.models for source in sources_of(model)]


def _check(sources: Iterable[WorkerSource]) -> None:
    """Check new worker sources as far as this is possible without waiting.

    Raises:
        WorkersError: with a sentence for every error of the first invalid source.
    """
    for source in sources:
        check_source(source)
