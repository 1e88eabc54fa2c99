import argparse

import pytest

from gateway.cli.commands.fields import KEY_FIELDS, TEAM_FIELDS, add_key_fields, add_team_fields, said_of
from gateway.cli.commands.output import CommandFailed
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.team import Team


def said(*arguments: str, to_change: bool = True) -> dict[str, object]:
    parser = argparse.ArgumentParser()
    add_key_fields(parser, to_change=to_change)
    return said_of(parser.parse_args(arguments), KEY_FIELDS, now=0)


def test_every_field_of_teams_and_keys_is_there() -> None:
    """A field that is added to either has to become an option."""
    made_by_the_api = {"id", "team", "digest", "former_digest", "former_until", "created_at", "earlier", "raises"}

    assert set(Team.__struct_fields__) - {"name", "raises"} == set(TEAM_FIELDS)
    assert set(Key.__struct_fields__) - made_by_the_api == set(KEY_FIELDS)


def test_what_is_not_said_is_not_sent() -> None:
    assert {} == said() == said(to_change=False)


def test_no_is_said() -> None:
    """It is not the same as nothing."""
    assert {"blocked": False, "fallback": False} == said("--no-blocked", "--no-fallback")


def test_what_is_taken_away_is_null() -> None:
    assert {
        "limits": {"concurrent": None},
        "model_limits": {"tiny": {"concurrent": None, "tokens_per_day": 5}},
        "expires_at": None,
        "priority": None,
    } == said(
        *("--limit", "concurrent=none", "--model-limit", "tiny:concurrent=none"),
        *("--model-limit", "tiny:tokens_per_day=5", "--expires", "never", "--reset", "priority"),
    )


def test_the_last_of_two_limits_counts() -> None:
    assert {"limits": {"concurrent": 6}} == said("--limit", "concurrent=5", "--limit", "concurrent=6")


def test_a_field_is_not_set_and_reset() -> None:
    """It says which one."""
    with pytest.raises(
        CommandFailed, match=r"^--reset limits cannot be combined with an option that sets the same field\.$"
    ):
        said("--limit", "concurrent=5", "--reset", "limits")


def test_a_new_one_has_nothing_to_reset(capsys: pytest.CaptureFixture[str]) -> None:
    """The option is that of a change."""
    parser = argparse.ArgumentParser()
    add_team_fields(parser, to_change=False)
    with pytest.raises(SystemExit):
        parser.parse_args(["--reset", "limits"])

    assert "unrecognized arguments: --reset limits" in capsys.readouterr().err
