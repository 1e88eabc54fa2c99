import pytest

from tests.gateway.cli.commands.terminal import Terminal, terminal

__all__ = ["terminal"]


def test_a_team_is_made_with_all_that_can_be_said_of_it(terminal: Terminal) -> None:
    """Every field has an option."""
    made = terminal.there(
        *("team", "create", "blue", "--weight", "2.5", "--priority", "high", "--model", "tiny", "--model", "gpt-4*"),
        *("--strategy", "session", "--no-fallback", "--blocked", "--isolated-cache", "--project", "p"),
        *("--ttft-s", "0.5", "--guardrail", "pii"),
        *("--project", "q", "--limit", "requests_per_minute=600", "--limit", "usd_per_day=1.5"),
        *("--limit-template", "standard"),
        *(
            "--model-limit",
            "tiny:concurrent=3",
            "--user-limit",
            "tokens_per_day=200",
            "--project-limit",
            "p:usd_per_month=40",
        ),
        *("--session-limit", "concurrent=4", "--session-limit", "tokens_per_minute=900", "--json"),
    ).json

    assert {
        "object": "team",
        "name": "blue",
        "weight": 2.5,
        "priority": "high",
        "models": ["tiny", "gpt-4*"],
        "strategies": ["session"],
        "fallback": False,
        "ttft_s": 0.5,
        "blocked": True,
        "isolated_cache": True,
        "projects": ["p", "q"],
        "guardrails": ["pii"],
        "limits": {"requests_per_minute": 600, "usd_per_day": 1.5},
        "limit_template": "standard",
        "model_limits": {"tiny": {"concurrent": 3}},
        "user_limits": {"tokens_per_day": 200},
        "session_limits": {"concurrent": 4, "tokens_per_minute": 900},
        "project_limits": {"p": {"usd_per_month": 40.0}},
        "declared": False,
    } == made
    assert {**made, "keys": []} == terminal.there("team", "show", "blue", "--json").json


def test_its_name_may_be_an_option(terminal: Terminal) -> None:
    assert "green" == terminal.there("team", "create", "--name", "green", "--json").json["name"]
    assert (2, "team create needs exactly one team name, as an argument or with --name.\n") == terminal.fails(
        "team", "create"
    )
    assert (2, "team create needs exactly one team name, as an argument or with --name.\n") == terminal.fails(
        "team", "create", "a", "--name", "a"
    )


def test_teams_are_listed_by_name(terminal: Terminal) -> None:
    """Those of the settings too, which are marked."""
    terminal.there("team", "create", "blue", "--limit", "concurrent=5")

    assert [
        ["NAME", "WEIGHT", "PRIORITY", "MODELS", "LIMITS", "BLOCKED", "DECLARED"],
        ["blue", "1", "normal", "-", "concurrent=5", "no", "no"],
        ["declared", "1", "normal", "-", "-", "no", "yes"],
    ] == terminal.there("team", "list").rows
    assert ["blue", "declared"] == [team["name"] for team in terminal.there("team", "list", "--json").json]


def test_one_team_is_shown_with_its_keys(terminal: Terminal) -> None:
    """For people: fields that say nothing are left out."""
    assert [
        ["name", "declared"],
        ["weight", "1"],
        ["priority", "normal"],
        ["fallback", "yes"],
        ["blocked", "no"],
        ["isolated", "cache", "no"],
        ["declared", "yes"],
        ["keys", "of-the-file"],
    ] == terminal.there("team", "show", "declared").rows


def test_a_change_leaves_alone_what_it_does_not_name(terminal: Terminal) -> None:
    """Limits one by one, lists as a whole; --reset brings a default back."""
    terminal.there("team", "create", "blue", "--limit", "concurrent=5", "--limit", "usd_per_day=1", "--model", "tiny")

    changed = terminal.there(
        *("team", "update", "blue", "--limit", "concurrent=6", "--limit", "usd_per_day=none", "--weight", "3"),
        *("--reset", "models", "--json"),
    ).json

    assert ({"concurrent": 6}, 3.0, None) == (changed["limits"], changed["weight"], changed["models"])


def test_a_team_may_be_left_without_models(terminal: Terminal) -> None:
    """None at all is not the same as every one."""
    terminal.there("team", "create", "blue", "--no-models")

    assert [] == terminal.there("team", "show", "blue", "--json").json["models"]


def test_a_team_with_keys_is_deleted_only_with_them(terminal: Terminal) -> None:
    terminal.there("team", "create", "blue")
    terminal.there("key", "create", "--team", "blue", "--id", "ci")

    code, said = terminal.fails("team", "delete", "blue")
    assert (1, True) == (code, said.startswith("The team 'blue' has 1 key"))
    assert "The team blue is deleted.\n" == terminal.there("team", "delete", "blue", "--cascade").out
    assert ["of-the-file"] == [key["id"] for key in terminal.there("key", "list", "--json").json]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("team", "create", "declared"), 1, "A team 'declared' already exists.\n"),
        (("team", "create", "b b"), 2, "'name' is not valid: the value must be a name"),
        (("team", "show", "nobody"), 1, "There is no team 'nobody'.\n"),
        (("team", "delete", "nobody"), 1, "There is no team 'nobody'.\n"),
        (("team", "update", "declared", "--weight", "2"), 1, "The team 'declared' is declared in the configuration"),
        (("team", "create", "blue", "--model", "a", "--no-models"), 2, "--no-models cannot be combined with --model"),
        (("team", "update", "blue", "--weight", "2", "--reset", "weight"), 2, "--reset weight cannot be combined with"),
        (
            ("team", "create", "blue", "--limit", "rpm=1"),
            2,
            "argument --limit: 'rpm' is not one of",
        ),
        (("team", "create", "blue", "--priority", "top"), 2, "argument --priority: invalid choice: 'top'"),
        (("team", "create", "blue", "--weight", "0"), 2, "argument --weight: '0' is not a number above 0"),
    ],
)
def test_what_cannot_be_done_is_said(terminal: Terminal, arguments: tuple[str, ...], code: int, said: str) -> None:
    """On stderr; 2 is for what was asked wrongly."""
    failed = terminal.fails(*arguments)

    assert code == failed[0]
    assert said in failed[1]
