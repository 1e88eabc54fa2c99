from pathlib import Path

from gateway.app.identity_rules import KeySource
from gateway.app.mapping.identity import identity_rules
from gateway.settings.identity import IdentitySettings
from gateway.tenancy.identity.issuer import Issuer
from gateway.tenancy.identity.team_rule import TeamRule
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.team import Team


def test_settings_of_issuers_become_issuers_and_the_places_of_their_keys() -> None:
    rules = [
        {"value": "admins", "team": "platform", "project": "ops", "models": ["tiny"], "priority": "high"},
        {"value": "llm-*", "team": "{rest}", "create_team": {"weight": 2, "limits": {"tokens_per_minute": 7}}},
    ]
    issuer = {"name": "okta", "issuer": "https://a/", "audiences": ["x"], "ca_file": "/ca", "algorithms": ["ES256"]}
    found = identity_rules(IdentitySettings.model_validate({"issuers": [{**issuer, "rules": rules}], "max_teams": 9}))
    template = Team("", weight=2, limits=Limits(tokens_per_minute=7))

    assert 9 == found.max_teams
    assert (
        (
            Issuer(
                name="okta",
                url="https://a/",
                audiences=frozenset({"x"}),
                algorithms=frozenset({"ES256"}),
                leeway_s=30,
                max_lifetime_s=None,
                user_claim="sub",
                rules=(
                    TeamRule("groups", "admins", "platform", project="ops", models=("tiny",), priority="high"),
                    TeamRule("groups", "llm-*", "{rest}", template=template),
                ),
            ),
            KeySource("https://a/", None, Path("/ca"), None, 300, 86_400),
        ),
    ) == found.issuers
