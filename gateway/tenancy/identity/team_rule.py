"""Rules that find the team of a token from its claims."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.tenancy.identity.claims import rest_of, values_at
from gateway.tenancy.teams.team import Priority, Team


@dataclass(frozen=True, slots=True)
class TeamRule:
    """Rule that gives a token a team if a claim has a certain value.

    *value* is compared as a whole, unless it ends with ``*``, which stands for any ending. In *team*, ``{value}`` is
    replaced by the matched value of the claim, and ``{rest}`` by the part of it for which ``*`` stands.
    """

    claim: str
    value: str
    team: str
    project: str | None = None
    models: tuple[str, ...] | None = None
    """Models that the token is allowed to use, among those of its team, or None for all models of the team."""
    priority: Priority | None = None
    template: Team | None = None
    """Team from which a missing team is created, or None if a missing team is an error."""


@dataclass(frozen=True, slots=True)
class TeamGrant:
    """Team of a token, and what the token is allowed to do in it."""

    team: str
    rule: TeamRule


def team_grant(rules: Sequence[TeamRule], claims: Mapping[str, object]) -> TeamGrant | None:
    """Return the team by the first of *rules* that matches *claims*, or None if no rule matches. O(rules * values)."""
    for rule in rules:
        for value in values_at(claims, rule.claim):
            rest = rest_of(rule.value, value)
            if rest is not None:
                return TeamGrant(rule.team.replace("{value}", value).replace("{rest}", rest), rule)
    return None
