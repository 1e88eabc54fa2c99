"""Responses of the admin API that show teams and keys, without secrets and digests."""

from typing import Any, Literal

import msgspec
from pydantic import Field

from gateway.api.admin_v1.bodies import KeyState, TeamState, limits_by_name
from gateway.api.times import rfc3339
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.team import Team

Json = dict[str, Any]


class TeamResponse(TeamState):
    object: Literal["team"]
    name: str
    declared: bool = Field(
        description="whether the object is defined in the configuration, and can be changed only there"
    )


class KeyResponse(KeyState):
    object: Literal["key"]
    id: str
    team: str
    created_at: str | None = Field(
        description="creation time, RFC 3339 in UTC; null if the key is defined in the configuration"
    )
    expires_at: str | None = Field(description="expiry time, RFC 3339 in UTC; null if the key never expires")  # type: ignore[assignment]  # shown
    expired: bool
    former_until: str | None = Field(description="time until which a previous secret stays valid")
    declared: bool = Field(
        description="whether the object is defined in the configuration, and can be changed only there"
    )


class NewKeyResponse(KeyResponse):
    secret: str = Field(description="secret that callers send; shown only once, and not stored")


def team_state(team: Team) -> Json:
    """Return the fields of *team* that a merge patch is allowed to change."""
    return {
        "weight": team.weight,
        "priority": team.priority,
        "models": _names(team.models),
        "strategies": _names(team.strategies),
        "fallback": team.fallback,
        "ttft_s": team.ttft_s,
        "blocked": team.blocked,
        "isolated_cache": team.isolated_cache,
        "projects": list(team.projects),
        "guardrails": list(team.guardrails),
        "limits": _limits(team.limits),
        "limit_template": team.limit_template,
        "model_limits": _limits_by_name(team.model_limits),
        "user_limits": _limits(team.user_limits),
        "session_limits": _limits(team.session_limits),
        "project_limits": _limits_by_name(team.project_limits),
    }


def key_state(key: Key) -> Json:
    """Return the fields of *key* that a merge patch is allowed to change."""
    return {
        "project": key.project,
        "models": _names(key.models),
        "strategies": _names(key.strategies),
        "fallback": key.fallback,
        "networks": _names(key.networks),
        "priority": key.priority,
        "weight": key.weight,
        "blocked": key.blocked,
        "expires_at": _time(key.expires_at),
        "limits": _limits(key.limits),
        "limit_template": key.limit_template,
        "model_limits": _limits_by_name(key.model_limits),
    }


def team_response(team: Team, *, declared: bool) -> Json:
    return {"object": "team", "name": team.name, **team_state(team), "declared": declared}


def key_response(key: Key, *, declared: bool, now: float) -> Json:
    """Return the response for *key*, with its expiry status at the time *now* in seconds since 1970."""
    formers_until = [former.until for former in key.formers(now)]
    return {
        "object": "key",
        "id": key.id,
        "team": key.team,
        **key_state(key),
        "created_at": _time(key.created_at or None),
        "expired": key.expires_at is not None and key.expires_at <= now,
        "former_until": _time(max(formers_until, default=None)),
        "declared": declared,
    }


def team_of(name: str, state: TeamState) -> Team:
    return Team(
        name=name,
        weight=state.weight,
        priority=state.priority,
        models=state.models,
        strategies=state.strategies,
        fallback=state.fallback,
        ttft_s=state.ttft_s,
        blocked=state.blocked,
        isolated_cache=state.isolated_cache,
        projects=state.projects,
        guardrails=state.guardrails,
        limits=state.limits.limits(),
        limit_template=state.limit_template,
        model_limits=limits_by_name(state.model_limits),
        user_limits=state.user_limits.limits(),
        session_limits=state.session_limits.limits(),
        project_limits=limits_by_name(state.project_limits),
    )


def key_of(key: Key, state: KeyState) -> Key:
    """Return *key* with the fields of *state* applied."""
    return msgspec.structs.replace(
        key,
        project=state.project,
        models=state.models,
        strategies=state.strategies,
        fallback=state.fallback,
        networks=state.networks,
        priority=state.priority,
        weight=state.weight,
        blocked=state.blocked,
        expires_at=None if state.expires_at is None else state.expires_at.timestamp(),
        limits=state.limits.limits(),
        limit_template=state.limit_template,
        model_limits=limits_by_name(state.model_limits),
    )


def _names(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)


def _limits(limits: Limits) -> Json:
    shown: Json = msgspec.to_builtins(limits)  # those that are set
    return shown


def _limits_by_name(limits: dict[str, Limits]) -> dict[str, Json]:
    return {name: _limits(each) for name, each in limits.items()}


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else rfc3339(seconds)
