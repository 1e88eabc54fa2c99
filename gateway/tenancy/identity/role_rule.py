"""Rules that find the role of a token in the administration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gateway.protocol.field_types import is_entity_name
from gateway.tenancy.identity.claims import rest_of, values_at

AdminRole = Literal["viewer", "operator", "owner"]


@dataclass(frozen=True, slots=True)
class RoleRule:
    """Rule that gives a token a role if a claim has a certain value.

    *value* and the placeholders in *team* have the same meaning as in `TeamRule`.
    """

    claim: str
    value: str
    role: AdminRole
    team: str | None = None
    """Team to which the role is limited, or None if it is not limited to a team."""


@dataclass(frozen=True, slots=True)
class RoleGrant:
    """Role of a token, and the team to which the role is limited, or None."""

    role: AdminRole
    team: str | None = None


def role_grant(rules: Sequence[RoleRule], claims: Mapping[str, object]) -> RoleGrant | None:
    """Return the role by the first of *rules* that matches *claims*, or None if no rule matches. O(rules * values).

    A rule whose team would not be the name of a team does not match, because a role must never become one for all
    teams.
    """
    for rule in rules:
        for value in values_at(claims, rule.claim):
            rest = rest_of(rule.value, value)
            if rest is None:
                continue
            if rule.team is None:
                return RoleGrant(rule.role)
            team = rule.team.replace("{value}", value).replace("{rest}", rest)
            if is_entity_name(team):
                return RoleGrant(rule.role, team)
    return None
