"""The teams and keys of the settings."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gateway.settings import SettingsError
from gateway.settings.teams import KeySettings, LimitSettings, TeamSettings
from gateway.teams.key import Key
from gateway.teams.limits import Limits
from gateway.teams.secret import Digester, hashed
from gateway.teams.team import Team


@dataclass(frozen=True, slots=True)
class Declared:
    """Read-only for the admin API and the commands: they are changed where they are declared."""

    teams: Mapping[str, Team] = field(default_factory=dict)
    """By name."""
    keys: Mapping[str, Key] = field(default_factory=dict)
    """By id, of all teams."""


def declared_in(teams: Iterable[TeamSettings], digester: Digester) -> Declared:
    """What the settings say of *teams*.

    Raises:
        SettingsError: two keys have the same secret.
    """
    named: dict[str, Team] = {}
    keys: dict[str, Key] = {}
    whose: dict[str, str] = {}
    faults: list[str] = []
    for team in teams:
        named[team.name] = _team(team)
        for declared in team.keys:
            key = _key(team.name, declared, digester)
            keys[key.id] = key
            other = whose.setdefault(key.digest, key.id)
            if other != key.id:
                faults.append(f"teams: the keys {other!r} and {key.id!r} have the same secret; each must have its own.")
    if faults:
        raise SettingsError(faults)
    return Declared(named, keys)


def _team(team: TeamSettings) -> Team:
    return Team(
        name=team.name,
        weight=team.weight,
        priority=team.priority,
        models=team.models,
        strategies=team.strategies,
        fallback=team.fallback,
        ttft_s=team.ttft_s,
        blocked=team.blocked,
        isolated_cache=team.isolated_cache,
        projects=team.projects,
        guardrails=team.guardrails,
        limits=_limits(team.limits),
        model_limits=_model_limits(team.model_limits),
    )


def _key(team: str, key: KeySettings, digester: Digester) -> Key:
    return Key(
        id=key.id,
        team=team,
        digest=digester.digest_of(_sha256(key)),
        project=key.project,
        models=key.models,
        strategies=key.strategies,
        fallback=key.fallback,
        networks=key.networks,
        priority=key.priority,
        weight=key.weight,
        limits=_limits(key.limits),
        model_limits=_model_limits(key.model_limits),
    )


def _sha256(key: KeySettings) -> bytes:
    if key.secret_sha256 is not None:
        return bytes.fromhex(key.secret_sha256.get_secret_value())
    assert key.secret is not None, "the settings see to it"
    return hashed(key.secret.get_secret_value())


def _limits(limits: LimitSettings) -> Limits:
    return Limits(**dict(limits))


def _model_limits(limits: Mapping[str, LimitSettings]) -> dict[str, Limits]:
    return {model: _limits(each) for model, each in limits.items()}
