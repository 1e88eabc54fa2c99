from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from gateway.settings.identity import IssuerSettings
from tests.gateway.settings.examples import SMALLEST, parsed, sentences

ISSUER: dict[str, Any] = {
    "name": "okta",
    "issuer": "https://login.example.com/",
    "audiences": ["warmgate"],
    "rules": [{"value": "admins", "team": "platform"}],
}


def test_an_issuer_needs_a_name_an_address_audiences_and_rules() -> None:
    settings = IssuerSettings.model_validate(ISSUER)

    assert "https://login.example.com/" == settings.issuer
    assert ("RS256", "PS256", "ES256", "EdDSA") == settings.algorithms
    assert (30, 300, 86_400, "sub") == (settings.leeway_s, settings.refresh_s, settings.stale_s, settings.user_claim)
    assert ("groups", "admins", "platform") == (
        settings.rules[0].claim,
        settings.rules[0].value,
        settings.rules[0].team,
    )
    for name in ISSUER:
        with pytest.raises(ValidationError):
            IssuerSettings.model_validate({key: value for key, value in ISSUER.items() if key != name})


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "login.example.com"},
        {"issuer": "http://login.example.com"},
        {"issuer": "http://localhost.example.com"},
        {"jwks_url": "http://10.0.0.5/keys"},
        {"audiences": []},
        {"audiences": ["a b"]},
        {"algorithms": ["HS256"]},
        {"algorithms": ["none"]},
        {"algorithms": []},
        {"leeway_s": 301},
        {"leeway_s": -1},
        {"stale_s": 299},
        {"rules": []},
        {"rules": [{"value": "a*b", "team": "x"}]},
        {"rules": [{"value": "a", "team": "{rest}"}]},
        {"rules": [{"value": "a", "team": "{other}"}]},
        {"rules": [{"value": "a", "team": "a b"}]},
        {"rules": [{"value": "", "team": "x"}]},
        {"rules": [{"value": "a", "team": "x", "claim": ""}]},
    ],
)
def test_a_wrong_value_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        IssuerSettings.model_validate({**ISSUER, **wrong})


@pytest.mark.parametrize("address", ["http://localhost:5556/dex", "http://127.0.0.1:1", "http://[::1]:80/x"])
def test_an_issuer_on_this_machine_needs_no_encryption(address: str) -> None:
    assert address == IssuerSettings.model_validate({**ISSUER, "issuer": address, "jwks_url": address}).issuer


def test_two_issuers_have_different_names_and_addresses() -> None:
    one = "{name: okta, issuer: 'https://a', audiences: [x], rules: [{value: a, team: b}]}"

    assert 2 == len(sentences(f"{SMALLEST}\nidentity: {{issuers: [{one}, {one}]}}"))
    assert (1000, ()) == (parsed(SMALLEST).identity.max_teams, parsed(SMALLEST).identity.issuers)


SCIM_SECRET = "a-token-of-24-characters"


def test_provisioning_needs_a_long_token_of_its_own() -> None:
    second = {**ISSUER, "name": "entra", "issuer": "https://other.example.com/"}
    of_both = [{**each, "scim": {"secret": SCIM_SECRET}} for each in (ISSUER, second)]
    scim = parsed(with_issuers(*of_both[:1])).identity.issuers[0].scim

    assert scim is not None
    assert ("sub", "userName", "refuse") == (scim.user_claim, scim.attribute, scim.unknown_users)
    assert SCIM_SECRET not in repr(scim)
    assert ["identity.issuers[1].scim.secret is the token of another issuer. Give each issuer its own token."] == (
        sentences(with_issuers(*of_both))
    )
    assert ["identity.issuers[0].scim.secret is shorter than 24 characters."] == sentences(
        with_issuers({**ISSUER, "scim": {"secret": SCIM_SECRET[:-1]}})
    )
    assert ["identity.issuers[0].scim.secret is required. Set secret or secret_env."] == sentences(
        with_issuers({**ISSUER, "scim": {}})
    )


def test_the_token_of_a_provisioning_issuer_can_come_from_the_environment() -> None:
    issuers = with_issuers({**ISSUER, "scim": {"secret_env": "OKTA_SCIM_TOKEN"}})
    scim = parsed(issuers, OKTA_SCIM_TOKEN=SCIM_SECRET).identity.issuers[0].scim

    assert scim is not None
    assert scim.secret is not None
    assert SCIM_SECRET == scim.secret.get_secret_value()


def with_issuers(*issuers: dict[str, Any]) -> str:
    text: str = yaml.safe_dump({**yaml.safe_load(SMALLEST), "identity": {"issuers": list(issuers)}})
    return text


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ({"value": "a", "role": "operator", "team": "blue"}, "needs the role viewer or owner"),
        ({"value": "a", "role": "viewer", "team": "{rest}"}, "contains {rest}"),
        ({"value": "a", "role": "admin"}, "role"),
        ({"value": "a*b", "role": "viewer"}, "value"),
    ],
)
def test_a_wrong_rule_for_roles_is_refused(rule: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        IssuerSettings.model_validate({**ISSUER, "admin_roles": [rule]})


ROLES = [{"value": "admins", "role": "owner"}]
CONSOLE = {"client_id": "console", "public_url": "https://gateway.example.com/"}


def test_the_login_to_the_console_needs_a_client_an_address_and_roles() -> None:
    settings = IssuerSettings.model_validate({**ISSUER, "admin_roles": ROLES, "console": CONSOLE})

    assert settings.console is not None
    assert (("openid", "profile"), None) == (settings.console.scopes, settings.console.secret)
    with pytest.raises(ValidationError, match="Configure admin_roles"):
        IssuerSettings.model_validate({**ISSUER, "console": CONSOLE})


@pytest.mark.parametrize(
    "wrong",
    [
        {"client_id": ""},
        {"client_id": "a b"},
        {"scopes": ["profile"]},
        {"public_url": "http://gateway.example.com"},
        {"public_url": "https://gateway.example.com/console"},
        {"public_url": "https://user@gateway.example.com"},
        {"public_url": "https://gateway.example.com?x"},
        {"public_url": "gateway.example.com"},
        {"redirect_uri": "https://evil.example.com"},
    ],
)
def test_a_wrong_login_to_the_console_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        IssuerSettings.model_validate({**ISSUER, "admin_roles": ROLES, "console": {**CONSOLE, **wrong}})


def test_roles_for_tokens_need_an_admin_key() -> None:
    issuer = {**ISSUER, "admin_roles": [{"value": "lead-*", "role": "viewer", "team": "{rest}"}]}
    text = SMALLEST + yaml.safe_dump({"identity": {"issuers": [issuer]}})

    assert [
        "identity.issuers[0].admin_roles need an admin key, which works while the issuer is unavailable. "
        "Configure admin.keys."
    ] == sentences(text)
    assert parsed(text + "admin: {keys: [{role: owner, secret: s}]}\n") is not None
