"""Limits, charges and callers for tests of quotas."""

from gateway.tenancy.quota.limit import Charge, Limit
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limit_raise import LimitRaise
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.team import Team
from tests.contracts.quota_stage import NOW, entry

__all__ = ["BUDGET", "DAY_S", "NOW", "REQUESTS", "SLOTS", "TOKENS", "caller", "entry", "usd"]

DAY_S = 86_400.0

TOKENS = Limit("key:ci/tokens_per_minute", "rate", 600.0, burst=60.0)
"""Ten a second."""
REQUESTS = Limit("key:ci/requests_per_minute", "rate", 60.0, burst=6.0)
BUDGET = Limit("team:blue/usd_per_day", "period", 1.0)
SLOTS = Limit("team:blue/concurrent", "concurrent", 2.0)


def usd(units: float, *, period: str = "2026-11-18", left_s: float = DAY_S / 2) -> Charge:
    return Charge(BUDGET, units, period, left_s)


def caller(
    *,
    key: Limits | None = None,
    key_model: dict[str, Limits] | None = None,
    team: Limits | None = None,
    team_model: dict[str, Limits] | None = None,
    user: Limits | None = None,
    session: Limits | None = None,
    project: Limits | None = None,
    raises: tuple[LimitRaise, ...] = (),
) -> Caller:
    """Key ``ci`` of team ``blue`` and of its project ``search``."""
    team_of_all = Team(
        "blue",
        limits=team or Limits(),
        model_limits=team_model or {},
        user_limits=user or Limits(),
        session_limits=session or Limits(),
        project_limits={} if project is None else {"search": project},
        raises=raises,
    )
    key_of_one = Key("ci", "blue", "0" * 64, project="search", limits=key or Limits(), model_limits=key_model or {})
    return Caller(team_of_all, key_of_one)
