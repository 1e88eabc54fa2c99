"""A key of `teams` or `admin` may name the variable that holds its secret."""

import pytest

from gateway.settings import build
from tests.gateway.settings.examples import SMALLEST, parsed, sentences

TEAMS = "teams: [{name: blue, keys: [{id: ci, secret_env: BLUE_KEY}]}]"


def test_the_secret_is_that_of_the_variable() -> None:
    key = parsed(f"{SMALLEST}\n{TEAMS}", BLUE_KEY="wg-ci-1").teams[0].keys[0]

    assert key.secret is not None
    assert "wg-ci-1" == key.secret.get_secret_value()


def test_a_variable_that_is_not_set_is_named() -> None:
    assert ["teams[0].keys[0].secret_env names BLUE_KEY, which is not set."] == _sentences(TEAMS)


@pytest.mark.parametrize("secret", ["hunter2", "wg-ci-0123456789", "a1B2c3D4"])
def test_a_secret_in_the_place_of_a_name_is_not_repeated(secret: str) -> None:
    """Only what looks like the name of a variable is."""
    reported = " ".join(_sentences(TEAMS.replace("BLUE_KEY", secret)))

    assert "teams[0].keys[0].secret_env names a variable, which is not set." in reported
    assert secret not in reported


def test_a_key_has_one_secret() -> None:
    text = "teams: [{name: blue, keys: [{id: ci, secret: s-1, secret_env: BLUE_KEY}]}]"

    assert ["teams[0].keys[0].secret_env cannot be combined with another secret of the key."] == _sentences(text)


def test_a_key_without_a_secret_is_refused() -> None:
    assert [
        "teams[0].keys[0].secret is invalid. Set exactly one of secret, secret_env and secret_sha256."
    ] == _sentences("teams: [{name: blue, keys: [{id: ci}]}]")


def test_the_variable_may_begin_as_those_of_settings_do() -> None:
    """It is no misspelt setting."""
    text = "admin: {keys: [{role: owner, secret_env: WARMGATE_OWNER}]}"

    assert "owner" == parsed(f"{SMALLEST}\n{text}", WARMGATE_OWNER="s-1").admin.keys[0].id


def test_the_variables_of_the_commands_are_no_settings() -> None:
    assert parsed() == parsed(
        WARMGATE_ADMIN_KEY="s-1", WARMGATE_ADMIN_URL="http://127.0.0.1:8081", WARMGATE_KEY="wg-ci"
    )


def test_a_bad_secret_is_reported_by_its_variable_and_not_repeated() -> None:
    found = _sentences(TEAMS, BLUE_KEY="two words")

    assert [
        "BLUE_KEY (teams[0].keys[0].secret) is not valid; "
        "the value must be printable ASCII without spaces or line breaks."
    ] == found[:1]


def test_a_variable_may_name_a_variable() -> None:
    data = {"models": [{"name": "tiny", "workers": [{"url": "http://127.0.0.1:1"}]}]}
    settings = build(
        data,
        {
            "WARMGATE_TEAMS__0__NAME": "blue",
            "WARMGATE_TEAMS__0__KEYS__0__ID": "ci",
            "WARMGATE_TEAMS__0__KEYS__0__SECRET_ENV": "WARMGATE_BLUE",
            "WARMGATE_BLUE": "s-1",
        },
    )

    assert settings.teams[0].keys[0].secret is not None


def _sentences(text: str, **environ: str) -> list[str]:
    return sentences(text=f"{SMALLEST}\n{text}", **environ)
