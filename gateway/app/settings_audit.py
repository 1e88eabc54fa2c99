"""Audit log entries for configuration changes, including changes of files, with old and new values.

A change under a running gateway is logged when it takes effect. This includes changes of worker files. At the start,
the settings are compared with those last logged; the first start logs all settings. Secrets appear only as
fingerprints, which depend on the pepper and show when a secret was replaced. Gateways that share a store log a change
only once.
"""

import asyncio
import hashlib
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import msgspec
from pydantic import SecretStr

from gateway.api.admin_v1.claims import Claim, Claims
from gateway.api.admin_v1.response_models import key_state, team_state
from gateway.api.times import to_the_millisecond
from gateway.app.live_settings import InForce
from gateway.protocol.errors import StoreUnavailable
from gateway.tenancy.ledger.audit import Action, AuditEntry, Kind
from gateway.tenancy.teams.declared import Declared
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.secret import Digester
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import TeamStore

Json = dict[str, Any]

SECRET, OTHER_SECRET = "(secret ", "(another secret "  # with a fingerprint and a bracket, what stands in their place
FINGERPRINT_DIGITS = 16
MAX_PLACES = 1000
"""Maximum number of settings to compare individually, including those of listed workers. A digest covers all others."""
MORE = "(more)"
"""Name under which the digest of the remaining settings is logged."""
MAX_TEXT = 300
"""Maximum number of characters of a logged value."""
MAX_PAGES = 20
PAGE = 500
"""Number of entries per page when the audit log is searched for the settings logged last."""
AGAIN_S = 5.0
"""Seconds between two attempts to write the audit log while the store is unavailable."""
LOOKS = 20
LOOK_S = 0.1
"""Seconds between two checks for another gateway's entry. After `LOOKS` checks, this gateway logs the change."""

_credentials = re.compile(r"(?<=://)[^@/?]*(?=@)|(?<=password=)[^&]*")
_former_secret = re.compile(r"^\(another secret ")


class SettingsAudit:
    """Writer of audit log entries for settings changes to *store*.

    With *claims*, only one of several gateways logs a change.

    *origin* is the name of the settings file. *declared* returns the declared teams and keys with their digests.
    *digester* returns a digester with the store's pepper, or raises StoreUnavailable. *wall_clock* returns seconds
    since 1970.
    """

    def __init__(
        self,
        store: TeamStore,
        *,
        claims: Claims,
        origin: str,
        declared: Callable[[InForce], Declared],
        digester: Callable[[], Awaitable[Digester]],
        wall_clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._claims = claims
        self._writer = secrets.token_hex(16)
        self._origin = origin
        self._declared = declared
        self._digester = digester
        self._wall_clock = wall_clock

    async def started(self, now: Callable[[], InForce]) -> None:
        """Log the differences between the settings and those that a gateway with the same store logged last.

        Waits for an unavailable store.

        *now* returns the settings in effect, because they may change and be logged during the wait.
        """
        while True:
            try:
                await self._log_once(partial(self._new, _state_of(now(), await self._digester())))
            except StoreUnavailable:
                await asyncio.sleep(AGAIN_S)
            else:
                return

    async def changed(self, before: InForce, after: InForce, file: str | None = None) -> None:
        """Log the change from *before* to *after*, caused by the worker file *file* or, if it is None, by the settings.

        Raises:
            StoreUnavailable: if the store is unavailable. Some entries may be missing.
        """
        digester = await self._digester()
        old, new = _differences(_state_of(before, digester), _state_of(after, digester))
        teams = list(self._of_teams(before, after))
        await self._log_once(lambda logged: [] if _has(logged, old, new) else [*teams, *self._update(old, new, file)])

    async def _log_once(self, entries_of: Callable[[Json | None], list[AuditEntry]]) -> None:
        """Log the entries that *entries_of* derives from the settings logged last, unless another gateway logs them.

        If the other gateway does not log them in time, this gateway does. A duplicate entry is better than none.
        """
        entries: list[AuditEntry] = []
        for _ in range(LOOKS):
            newest, logged = await self._last()
            entries = entries_of(logged)
            if not entries:
                return
            claim = Claim(_digest_of([newest, entries[-1].before, entries[-1].after]), "", self._writer)
            if (await self._claims.take(claim)).made == self._writer:
                break
            await asyncio.sleep(LOOK_S)
        for entry in entries:
            await self._store.note(entry)

    def _new(self, now: Json, logged: Json | None) -> list[AuditEntry]:
        if logged is None:
            return [self._entry("start", "settings", "configuration", before=None, after=now)]
        return list(self._update(*_differences(logged, now)))

    async def _last(self) -> tuple[str, Json | None]:
        """Return an identifier of the last settings entry, and the settings logged last.

        If the audit log has none, the identifier is empty and the settings are None.
        """
        changes: list[AuditEntry] = []
        newest, cursor = "", None
        for _ in range(MAX_PAGES):
            page = await self._store.audit(cursor, most=PAGE)
            for entry in page.items:
                if entry.kind != "settings" or not entry.who.startswith("file:"):
                    continue
                newest = newest or _digest_of(entry)
                if entry.action == "start":
                    return newest, _replayed(entry.after or {}, reversed(changes))
                changes.append(entry)
            cursor = page.next
            if cursor is None:
                break
        return newest, None

    def _update(self, before: Json, after: Json, file: str | None = None) -> Iterator[AuditEntry]:
        if before or after:
            yield self._entry("update", "settings", "configuration", before=before, after=after, file=file)

    def _of_teams(self, before: InForce, after: InForce) -> Iterator[AuditEntry]:
        """Yield the changes of configured teams and keys, in the form in which the admin API logs them."""
        former, present = self._declared(before), self._declared(after)
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
        self,
        action: Action,
        kind: Kind,
        name: str,
        *,
        before: Json | None,
        after: Json | None,
        team: str | None = None,
        file: str | None = None,
    ) -> AuditEntry:
        return AuditEntry(
            time=to_the_millisecond(self._wall_clock()),
            who=f"file:{file or self._origin}",
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


def _state_of(in_force: InForce, digester: Digester) -> Json:
    """Return all settings that differ from their defaults, by path, with secrets masked, including listed workers.

    List entries are identified by name instead of number.
    """
    flat = dict(_walk("", in_force.settings.model_dump(exclude_defaults=True)))
    for model, workers in sorted(in_force.listed.items()):
        listed = [_given(worker) for worker in workers]
        flat.update(_walk(f"models[{model}].workers_file", listed) if listed else ())
    return _bounded({place: _masked(place, value, digester) for place, value in flat.items()})


def _given(value: Any) -> Any:
    """Return the fields of *value*, a dataclass or a tuple of dataclasses, that differ from their defaults."""
    if isinstance(value, tuple):
        return tuple(map(_given, value))
    if not is_dataclass(value):
        return value
    given = {each.name: getattr(value, each.name) for each in fields(value)}
    changed = {each.name: given[each.name] for each in fields(value) if given[each.name] != each.default}
    return {name: SecretStr(inner) if name == "api_key" else _given(inner) for name, inner in changed.items()}


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
    """Return the old values that *after* changes or removes, and the new values that *after* changes or adds."""
    places = [place for place in (*before, *after) if before.get(place, _NONE) != after.get(place, _NONE)]
    old = {place: before[place] for place in places if place in before}
    new = {place: after[place] for place in places if place in after}
    return old, {place: _replaced(value) if _is_secret(old.get(place)) else value for place, value in new.items()}


def _has(logged: Json | None, old: Json, new: Json) -> bool:
    """Return whether the settings *logged* already contain *new* in place of *old*."""
    if logged is None:
        return False
    is_there = all(logged.get(place, _NONE) == _plain(value) for place, value in new.items())
    return is_there and not any(place in logged for place in old.keys() - new.keys())


def _masked(place: str, value: Any, digester: Digester) -> Any:
    if isinstance(value, SecretStr):
        return _secret(place, value.get_secret_value(), digester)
    if isinstance(value, list):
        return [_masked(place, inner, digester) for inner in value]
    if not isinstance(value, str):
        return value if value is None or isinstance(value, bool | int | float) else str(value)
    text = _credentials.sub(lambda found: _secret(place, found.group(), digester), value)
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}... (sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]})"


def _secret(place: str, secret: str, digester: Digester) -> str:
    """Return a fingerprint of the setting *secret* at the path *place*.

    It reveals nothing to a reader without the pepper.

    The fingerprint shares no part with the digest by which a key is looked up.
    """
    text = f"warmgate: fingerprint of a setting\n{place}\n{secret}"
    return f"{SECRET}{digester.digest(text)[:FINGERPRINT_DIGITS]})"


def _is_secret(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(SECRET)


def _replaced(value: Any) -> Any:
    return f"{OTHER_SECRET}{value.removeprefix(SECRET)}" if _is_secret(value) else value


def _plain(value: Any) -> Any:
    return _former_secret.sub(SECRET, value) if isinstance(value, str) else value


def _bounded(values: Json) -> Json:
    if len(values) <= MAX_PLACES:
        return values
    items = list(values.items())
    rest = items[MAX_PLACES - 1 :]
    return dict(items[: MAX_PLACES - 1]) | {MORE: f"{len(rest)} settings (sha256 {_digest_of(rest)[:16]})"}


def _replayed(state: Json, changes: Iterable[AuditEntry]) -> Json:
    """Return *state* after applying *changes*, oldest first."""
    state = dict(state)
    for change in changes:
        for place in change.before or {}:
            state.pop(place, None)
        state |= change.after or {}
    return {place: _plain(value) for place, value in state.items()}


def _digest_of(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


_NONE = object()
