"""Changes of the configuration in the audit log, with what they changed: whoever may write to the file is seen as well.

A change under a running gateway is logged when it is in force. At a start, the settings are compared with those that
the log has last; the first start writes all of them. A secret is never shown; that one was replaced between two starts
is not noticed, as there is nothing that it could be compared with.
"""

import asyncio
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pydantic import SecretStr

from gateway.api.admin_v1.cards import key_state, team_state
from gateway.api.admin_v1.times import to_the_millisecond
from gateway.errors import StoreAway
from gateway.ledger.audit import Action, AuditEntry, Kind
from gateway.settings import Settings, TeamSettings
from gateway.teams.declared import Declared
from gateway.teams.key import Key
from gateway.teams.team import Team
from gateway.teams.team_store import TeamStore

Json = dict[str, Any]

SECRET, OTHER_SECRET = "(secret)", "(another secret)"  # what stands in their place
MAX_PLACES = 1000
"""Settings that one entry names."""
MAX_TEXT = 300
"""Characters of a value that are shown."""
MAX_PAGES = 20
PAGE = 500
"""Of the log, in which the settings before this start are looked for."""
AGAIN_S = 5.0
"""Between two attempts while the store is unavailable."""

_credentials = re.compile(r"(?<=://)[^@/?]*(?=@)|(?<=password=)[^&]*")


class SettingsAudit:
    """Writes to *store*; *origin* is the name of the file. *declared* are teams and keys with their digests.

    *wall_clock* gives seconds since 1970.
    """

    def __init__(
        self,
        store: TeamStore,
        *,
        origin: str,
        declared: Callable[[Iterable[TeamSettings]], Declared],
        wall_clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._who = f"file:{origin}"
        self._declared = declared
        self._wall_clock = wall_clock

    async def started(self, settings: Settings) -> None:
        """Log what is new in *settings* since the last gateway with this store; waits for a store that is away."""
        while True:
            try:
                await self._compare(_shown(_flat(settings)))
            except StoreAway:
                await asyncio.sleep(AGAIN_S)
            else:
                return

    async def changed(self, before: Settings, after: Settings) -> None:
        """Log that *after* is in force instead of *before*.

        Raises:
            StoreAway: not all of it may be logged.
        """
        for entry in [*self._of_teams(before, after), *self._of_settings(_differences(_flat(before), _flat(after)))]:
            await self._store.note(entry)

    async def _compare(self, now: Json) -> None:
        former = await self._last()
        if former is None:
            await self._store.note(self._entry("start", "settings", "configuration", before=None, after=_bounded(now)))
            return
        for entry in self._of_settings(_differences(former, now)):
            await self._store.note(entry)

    async def _last(self) -> Json | None:
        """Return the settings as the log has them last; None: it has none."""
        changes: list[AuditEntry] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._store.audit(cursor, most=PAGE)
            for entry in page.items:
                if entry.kind != "settings" or not entry.who.startswith("file:"):
                    continue
                if entry.action == "start":
                    return _replayed(entry.after or {}, reversed(changes))
                changes.append(entry)
            cursor = page.next
            if cursor is None:
                break
        return None

    def _of_settings(self, differences: tuple[Json, Json]) -> Iterator[AuditEntry]:
        before, after = differences
        if before or after:
            yield self._entry("update", "settings", "configuration", before=_bounded(before), after=_bounded(after))

    def _of_teams(self, before: Settings, after: Settings) -> Iterator[AuditEntry]:
        """What changed of declared teams and keys, as the admin API would log it."""
        former, present = self._declared(before.teams), self._declared(after.teams)
        for name in sorted(former.teams.keys() | present.teams.keys()):
            yield from self._of("team", name, name, former.teams.get(name), present.teams.get(name))
        for key_id in sorted(former.keys.keys() | present.keys.keys()):
            old, new = former.keys.get(key_id), present.keys.get(key_id)
            yield from self._of("key", key_id, (new or old or Key("", "", "")).team, old, new)

    def _of(
        self, kind: Kind, name: str, team: str, old: Team | Key | None, new: Team | Key | None
    ) -> Iterator[AuditEntry]:
        if old == new:
            return
        action: Action = "create" if old is None else "delete" if new is None else "update"
        if isinstance(old, Key) and isinstance(new, Key) and old.digest != new.digest:
            action = "rotate"
        yield self._entry(action, kind, name, before=_state(old), after=_state(new), team=team)

    def _entry(
        self, action: Action, kind: Kind, name: str, *, before: Json | None, after: Json | None, team: str | None = None
    ) -> AuditEntry:
        return AuditEntry(
            time=to_the_millisecond(self._wall_clock()),
            who=self._who,
            role="file",
            action=action,
            kind=kind,
            id=name,
            team=team,
            before=before,
            after=after,
        )


def _state(entity: Team | Key | None) -> Json | None:
    if entity is None:
        return None
    if isinstance(entity, Team):
        return {"name": entity.name, **team_state(entity)}
    return {"id": entity.id, "team": entity.team, **key_state(entity)}


def _flat(settings: Settings) -> Json:
    """Return every setting that has not its default, by its place; entries of lists are named, not numbered."""
    return dict(_walk("", settings.model_dump(exclude_defaults=True)))


def _walk(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _walk(f"{place}.{name}" if place else str(name), inner)
    elif isinstance(value, list | tuple) and any(isinstance(inner, dict) for inner in value):
        seen: set[str] = set()
        for i, inner in enumerate(value):
            name = _name_of(inner, i)
            yield from _walk(f"{place}[{name if name not in seen else i}]", inner)
            seen.add(name)
    else:
        yield place, list(value) if isinstance(value, tuple) else value


def _name_of(entry: Any, number: int) -> str:
    for field in ("name", "id", "url"):
        if isinstance(entry, dict) and isinstance(entry.get(field), str):
            return str(entry[field])
    return str(number)


def _differences(before: Json, after: Json) -> tuple[Json, Json]:
    """Return what of *before* is gone or another in *after*, and the reverse, as it may be shown."""
    places = [place for place in (*before, *after) if before.get(place, _NONE) != after.get(place, _NONE)]
    old = _shown({place: before[place] for place in places if place in before})
    new = _shown({place: after[place] for place in places if place in after})
    return old, {place: OTHER_SECRET if value == SECRET == old.get(place) else value for place, value in new.items()}


def _shown(values: Mapping[str, Any]) -> Json:
    return {place: _masked(value) for place, value in values.items()}


def _masked(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return SECRET
    if isinstance(value, list):
        return [_masked(inner) for inner in value]
    if not isinstance(value, str):
        return value if value is None or isinstance(value, bool | int | float) else str(value)
    text = _credentials.sub(SECRET, value)
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}... (sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]})"


def _bounded(values: Json) -> Json:
    return dict(list(values.items())[:MAX_PLACES])


def _replayed(state: Json, changes: Iterable[AuditEntry]) -> Json:
    """Return *state* as *changes*, the oldest first, have made it."""
    state = dict(state)
    for change in changes:
        for place in change.before or {}:
            state.pop(place, None)
        state |= change.after or {}
    return {place: SECRET if value == OTHER_SECRET else value for place, value in state.items()}


_NONE = object()
