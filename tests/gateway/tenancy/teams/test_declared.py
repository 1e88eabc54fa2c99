"""The teams and keys of the settings."""

import pytest

from gateway.tenancy.teams.declared import Declared, DeclaredKey, DeclaredTeam, TwoKeysOneSecretError, digested
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.secret import Digester, hashed
from gateway.tenancy.teams.team import Team

DIGESTER = Digester(b"pepper")


def a_team(name: str, key: str, secret: str) -> DeclaredTeam:
    return DeclaredTeam(Team(name), (DeclaredKey(Key(key, name, ""), hashed(secret)),))


def test_a_declared_key_gets_the_digest_of_its_secret() -> None:
    declared = digested([a_team("blue", "ci", "wg-ci-secret")], DIGESTER)

    assert Declared({"blue": Team("blue")}, {"ci": Key("ci", "blue", DIGESTER.digest("wg-ci-secret"))}) == declared


def test_two_keys_with_one_secret_are_refused() -> None:
    with pytest.raises(TwoKeysOneSecretError) as refused:
        digested([a_team("blue", "ci", "same"), a_team("red", "dev", "same")], DIGESTER)

    assert [
        "teams: the keys 'ci' and 'dev' have the same secret. Give each key a different secret."
    ] == refused.value.sentences
