"""`warmgate team raise` and `warmgate key raise`."""

from tests.gateway.cli.commands.terminal import Terminal, terminal

__all__ = ["terminal"]


def test_a_limit_of_a_team_is_raised_for_some_time(terminal: Terminal) -> None:
    terminal.there("team", "create", "blue", "--user-limit", "tokens_per_day=100")
    given = terminal.there(
        *("team", "raise", "blue", "tokens_per_day=500", "--user", "alice", "--for", "2h"),
        *("--reason", "launch", "--json"),
    ).json

    assert ("user", "alice", "tokens_per_day", 500.0, "launch") == tuple(
        given[name] for name in ("scope", "name", "measure", "amount", "reason")
    )
    assert [given["id"]] == [each["id"] for each in terminal.there("team", "raises", "blue", "--json").json]
    terminal.there("team", "end-raise", "blue", given["id"])
    assert [] == terminal.there("team", "raises", "blue", "--json").json


def test_a_limit_of_a_key_is_raised_for_some_time(terminal: Terminal) -> None:
    terminal.there("team", "create", "blue")
    terminal.there("key", "create", "--team", "blue", "--id", "ci", "--limit", "concurrent=5")
    given = terminal.there("key", "raise", "ci", "concurrent=9", "--for", "3d", "--reason", "evaluation", "--json").json

    assert ("key", "ci", "concurrent", 9.0) == tuple(given[each] for each in ("scope", "name", "measure", "amount"))
    assert [given["id"]] == [each["id"] for each in terminal.there("key", "raises", "ci", "--json").json]
    terminal.there("key", "end-raise", "ci", given["id"])
    assert [] == terminal.there("key", "raises", "ci", "--json").json


def test_a_raise_needs_an_amount(terminal: Terminal) -> None:
    assert (2, "A raise needs an amount, such as tokens_per_minute=20000.\n") == terminal.fails(
        "team", "raise", "blue", "concurrent=none", "--for", "1h", "--reason", "x"
    )
