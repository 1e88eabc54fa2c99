"""Values for the room of tenancy, from settings."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway.app.identity_rules import KeySource
from gateway.app.mapping.tenancy import (
    declared_in,
    identity_rules,
    ineffective_limits_in,
    limits_of,
    model_limits_of,
    scim_secrets,
)
from gateway.settings import ModelSettings, Settings, SettingsError, WorkerSettings, build
from gateway.settings.identity import IdentitySettings
from gateway.settings.teams import (
    HardLimitSettings,
    KeySettings,
    LimitSettings,
    LimitTemplateSettings,
    ModelGroupSettings,
    TeamSettings,
)
from gateway.tenancy.identity.issuer import Issuer, Provisioning
from gateway.tenancy.identity.team_rule import TeamRule
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.named_rules import NamedRules
from gateway.tenancy.teams.secret import Digester, hashed
from gateway.tenancy.teams.team import Team

DIGESTER = Digester(b"pepper")
SECRET = SecretStr("wg-ci-secret")


def settings_with(teams: Sequence[TeamSettings]) -> Settings:
    """Settings with these teams."""
    model = ModelSettings(name="tiny", workers=(WorkerSettings(url="http://a"),))
    templates = (LimitTemplateSettings(name="standard", limits=LimitSettings(requests_per_minute=600)),)
    groups = (ModelGroupSettings(name="chat", models=("tiny", "gpt-*")),)
    guardrails = ({"name": "pii", "kind": "pii"},)
    return Settings.model_validate(
        {
            "models": (model,),
            "teams": tuple(teams),
            "limit_templates": templates,
            "model_groups": groups,
            "guardrails": guardrails,
        }
    )


def test_a_team_and_its_key_say_little() -> None:
    teams = [TeamSettings(name="blue", keys=(KeySettings(id="ci", secret=SECRET),))]
    declared = declared_in(settings_with(teams), DIGESTER)

    assert {"blue": Team("blue")} == declared.teams
    assert {"ci": Key("ci", "blue", DIGESTER.digest("wg-ci-secret"))} == declared.keys


def test_a_team_and_its_key_say_everything() -> None:
    limits = LimitSettings(
        requests_per_minute=1,
        input_tokens_per_minute=2,
        output_tokens_per_minute=3,
        tokens_per_minute=4,
        max_concurrent_requests=5,
        tokens_per_day=6,
        usd_per_day=7.5,
        usd_per_month=8.5,
        soft_tokens_per_day=9,
        soft_tokens_per_month=10,
        soft_usd_per_day=11.5,
        soft_usd_per_month=12.5,
    )
    team = TeamSettings(
        name="blue",
        weight=2,
        priority="high",
        models=("tiny", "gpt-*"),
        strategies=("session",),
        fallback=False,
        ttft_s=0.5,
        blocked=True,
        isolated_cache=True,
        projects=("p",),
        guardrails=("pii",),
        limits=limits,
        limit_template="standard",
        model_limits={"tiny": LimitSettings(max_concurrent_requests=1)},
        user_limits=HardLimitSettings(tokens_per_day=6),
        session_limits=HardLimitSettings(max_concurrent_requests=5),
        project_limits={"p": HardLimitSettings(usd_per_month=7.5)},
        keys=(
            KeySettings(
                id="ci",
                secret=SECRET,
                project="p",
                models=("tiny",),
                strategies=("session",),
                fallback=True,
                allowed_cidrs=("10.0.0.0/8",),
                priority="low",
                weight=0.5,
                limits=LimitSettings(max_concurrent_requests=2),
                limit_template="standard",
                model_limits={"tiny": limits},
            ),
        ),
    )
    declared = declared_in(settings_with([team]), DIGESTER)

    every = Limits(1, 2, 3, 4, 5, 6, 7.5, 8.5, 9, 10, 11.5, 12.5)
    assert {
        "blue": Team(
            "blue", 2, "high", ("tiny", "gpt-*"), ("session",), False, True, True, ("p",), every,
            {"tiny": Limits(concurrent=1)}, 0.5, ("pii",),
            Limits(tokens_per_day=6), Limits(concurrent=5), {"p": Limits(usd_per_month=7.5)}, "standard",
        )
    } == declared.teams  # fmt: skip
    assert {
        "ci": Key(
            "ci",
            "blue",
            DIGESTER.digest("wg-ci-secret"),
            project="p",
            models=("tiny",),
            strategies=("session",),
            fallback=True,
            networks=("10.0.0.0/8",),
            priority="low",
            weight=0.5,
            limits=Limits(concurrent=2),
            limit_template="standard",
            model_limits={"tiny": every},
        )
    } == declared.keys


def test_limit_templates_and_model_groups_are_declared_with_the_teams() -> None:
    rules = declared_in(settings_with([]), DIGESTER).rules

    assert NamedRules({"standard": Limits(requests_per_minute=600)}, {"chat": ("tiny", "gpt-*")}) == rules


def test_a_budget_of_a_limit_template_on_a_free_model_is_reported() -> None:
    template = LimitTemplateSettings(name="paid", limits=LimitSettings(usd_per_day=1))
    team = TeamSettings(name="blue", limit_template="paid")
    settings = settings_with([]).model_copy(update={"limit_templates": (template,), "teams": (team,)})

    assert ["budgets of the team 'blue' in US dollars do not count models without a price: tiny"] == list(
        ineffective_limits_in(settings)
    )


def test_a_key_may_be_declared_by_the_hash_of_its_secret() -> None:
    """What stands in a repository then opens nothing."""
    sha256 = SecretStr(hashed("wg-ci-secret").hex())
    teams = [TeamSettings(name="blue", keys=(KeySettings(id="ci", secret_sha256=sha256),))]

    assert DIGESTER.digest("wg-ci-secret") == declared_in(settings_with(teams), DIGESTER).keys["ci"].digest


def test_two_keys_with_one_secret_are_refused() -> None:
    """Also where one is given by its hash. The secret is not repeated."""
    sha256 = SecretStr(hashed("wg-ci-secret").hex())
    teams = [
        TeamSettings(name="blue", keys=(KeySettings(id="ci", secret=SECRET),)),
        TeamSettings(name="red", keys=(KeySettings(id="dev", secret_sha256=sha256),)),
    ]
    with pytest.raises(SettingsError) as refused:
        declared_in(settings_with(teams), DIGESTER)

    assert [
        "teams: the keys 'ci' and 'dev' have the same secret. Give each key a different secret."
    ] == refused.value.sentences


def test_nothing_is_declared_where_there_are_no_teams() -> None:
    declared = declared_in(settings_with([]), DIGESTER)

    assert ({}, {}) == (declared.teams, declared.keys)


def test_limits_that_models_never_meet_are_reported() -> None:
    models = [{"name": "tiny", "workers": [{"url": "http://a"}]}]
    team = {"name": "blue", "model_limits": {"gone": {"tokens_per_day": 1}}, "limits": {"usd_per_day": 1}}

    assert [
        "limits of the team 'blue' for 'gone' have no effect: no model has that name (aliases do not count here)",
        "budgets of the team 'blue' in US dollars do not count models without a price: tiny",
    ] == list(ineffective_limits_in(build({"models": models, "teams": [team]}, {})))


def test_settings_of_limits_become_limits() -> None:
    settings = LimitSettings(requests_per_minute=5, max_concurrent_requests=2, usd_per_month=9.5)

    assert Limits(requests_per_minute=5, concurrent=2, usd_per_month=9.5) == limits_of(settings)
    assert {"tiny": Limits(tokens_per_day=7)} == model_limits_of({"tiny": LimitSettings(tokens_per_day=7)})


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


def test_settings_of_provisioning_become_its_rules_and_tokens() -> None:
    issuer = {"name": "okta", "issuer": "https://a/", "audiences": ["x"], "rules": [{"value": "v", "team": "t"}]}
    scim = {"secret": "s" * 24, "user_claim": "oid", "attribute": "externalId", "unknown_users": "allow"}
    other = {**issuer, "name": "entra", "issuer": "https://b/"}
    settings = IdentitySettings.model_validate({"issuers": [{**issuer, "scim": scim}, other]})
    found = [each.provisioning for each, _ in identity_rules(settings).issuers]

    assert [Provisioning("oid", "externalId", accepts_unknown=True), None] == found
    assert {"s" * 24: "okta"} == scim_secrets(settings)
