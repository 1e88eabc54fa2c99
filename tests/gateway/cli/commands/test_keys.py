import re
from datetime import UTC, datetime, timedelta

import pytest

from tests.gateway.cli.commands.terminal import Terminal, terminal

__all__ = ["terminal"]

SECRET = r"wg-ci-[\w-]{43}"


@pytest.fixture
def blue(terminal: Terminal) -> Terminal:
    terminal.there("team", "create", "blue")
    return terminal


def made_for(terminal: Terminal, *arguments: str) -> str:
    """The secret of a new key ``ci``."""
    return terminal.there("key", "create", "--team", "blue", "--id", "ci", "--quiet", *arguments).out.strip()


def test_a_new_key_is_shown_with_its_secret_once(blue: Terminal) -> None:
    """Nothing that comes later has it, nor has the file."""
    printed = blue.there("key", "create", "--team", "blue", "--id", "ci")
    (secret,) = re.findall(SECRET, printed.out)

    assert "\nThe secret is shown only once" in printed.out
    later = (("key", "show", "ci"), ("key", "list"), ("team", "show", "blue"), ("audit",))
    for arguments in later:
        assert "wg-ci" not in blue.there(*arguments).out
        assert "wg-ci" not in blue.there(*arguments, "--json").out
    for file in blue.store.parent.iterdir():
        assert secret.encode() not in file.read_bytes()


def test_a_key_is_made_with_all_that_can_be_said_of_it(blue: Terminal) -> None:
    """Every field has an option."""
    made = blue.there(
        *("key", "create", "--team", "blue", "--id", "ci", "--project", "p", "--model", "tiny", "--fallback"),
        *(
            "--strategy",
            "session",
            "--network",
            "10.0.0.0/8",
            "--allowed-cidr",
            "::1",
            "--priority",
            "low",
            "--weight",
            "2",
        ),
        *(
            "--limit-template",
            "standard",
            "--limit",
            "concurrent=3",
            "--model-limit",
            "tiny:tokens_per_day=9",
            "--expires",
            "2999-01-31",
            "--json",
        ),
    ).json
    del made["created_at"]

    assert re.fullmatch(SECRET, made.pop("secret"))
    assert {
        "object": "key",
        "id": "ci",
        "team": "blue",
        "project": "p",
        "models": ["tiny"],
        "strategies": ["session"],
        "fallback": True,
        "networks": ["10.0.0.0/8", "::1/128"],
        "priority": "low",
        "weight": 2.0,
        "blocked": False,
        "expires_at": "2999-01-31T00:00:00Z",
        "limits": {"concurrent": 3},
        "limit_template": "standard",
        "model_limits": {"tiny": {"tokens_per_day": 9}},
        "expired": False,
        "former_until": None,
        "declared": False,
    } == made


def test_quiet_is_the_secret_and_nothing_else(blue: Terminal) -> None:
    """For scripts: `KEY=$(warmgate key create --quiet ...)`."""
    assert re.fullmatch(rf"{SECRET}\n", blue.there("key", "create", "--team", "blue", "--id", "ci", "--quiet").out)


def test_an_id_is_made_where_none_is_given(blue: Terminal) -> None:
    """Another one each time."""
    ids = {blue.there("key", "create", "--team", "blue", "--json").json["id"] for _ in range(3)}

    assert 3 == len(ids)


def test_a_key_may_end_some_time_from_now(blue: Terminal) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    made = blue.there("key", "create", "--team", "blue", "--expires", "30d", "--json").json
    ends = datetime.fromisoformat(made["expires_at"])

    assert before <= ends - timedelta(days=30) <= datetime.now(UTC)


def test_a_key_of_a_team_of_the_settings_can_be_made(terminal: Terminal) -> None:
    """Only the team itself is read-only."""
    assert "declared" == terminal.there("key", "create", "--team", "declared", "--json").json["team"]


def test_keys_are_listed_with_their_state(blue: Terminal) -> None:
    made_for(blue)
    blue.there("key", "create", "--team", "blue", "--id", "bad", "--blocked")
    blue.there("key", "rotate", "ci", "--grace", "1h", "--quiet")

    listed = blue.there("key", "list")
    assert [
        ["ID", "TEAM", "PROJECT", "STATE", "EXPIRES", "AT", "LIMITS", "DECLARED"],
        ["bad", "blue", "-", "blocked", "-", "-", "no"],
        ["ci", "blue", "-", "rotated,", "previous", "until", listed.rows[2][6], "-", "-", "no"],
        ["of-the-file", "declared", "-", "good", "-", "-", "yes"],
    ] == listed.rows
    assert ["bad", "ci"] == [key["id"] for key in blue.there("key", "list", "--team", "blue", "--json").json]


def test_a_change_leaves_alone_what_it_does_not_name(blue: Terminal) -> None:
    """never takes the end away, --no-blocked the block."""
    made_for(blue, "--expires", "2999-01-31", "--network", "10.0.0.0/8", "--blocked", "--project", "p")

    arguments = ("key", "update", "ci", "--expires", "never", "--no-blocked", "--reset", "networks")
    changed = blue.there(*arguments, "--json").json

    assert (None, False, None, "p") == tuple(changed[name] for name in ("expires_at", "blocked", "networks", "project"))
    assert "wg-ci" not in str(changed)


def test_rotation_gives_another_secret(blue: Terminal) -> None:
    """With a grace the former one counts for a while."""
    first = made_for(blue)
    at_once = blue.there("key", "rotate", "ci", "--json").json
    later = blue.there("key", "rotate", "ci", "--grace", "1h", "--json").json

    assert 3 == len({first, at_once["secret"], later["secret"]})
    assert None is at_once["former_until"]
    ends = datetime.fromisoformat(later["former_until"])
    assert timedelta(minutes=50) < ends - datetime.now(UTC) <= timedelta(hours=1)


def test_a_revoked_key_is_gone(blue: Terminal) -> None:
    """Once."""
    made_for(blue)

    assert "The key ci is revoked.\n" == blue.there("key", "revoke", "ci").out
    assert (1, "There is no key 'ci'.\n") == blue.fails("key", "revoke", "ci")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("key", "create"), 2, "the following arguments are required: --team"),
        (("key", "create", "--team", "nobody"), 1, "There is no team 'nobody'.\n"),
        (("key", "create", "--team", "declared", "--id", "of-the-file"), 1, "A key 'of-the-file' already exists.\n"),
        (
            ("key", "create", "--team", "declared", "--expires", "2001-01-01"),
            2,
            "'expires_at' must be in the future.\n",
        ),
        (
            ("key", "create", "--team", "declared", "--expires", "soon"),
            2,
            "argument --expires: 'soon' is not an expiry such as 30d",
        ),
        (("key", "create", "--team", "declared", "--network", "here"), 2, "'networks[0]' is not valid"),
        (("key", "rotate", "of-the-file"), 1, "The key 'of-the-file' is declared in the configuration"),
        (("key", "rotate", "of-the-file", "--grace", "long"), 2, "argument --grace: 'long' is not a duration such as"),
        (("key", "update", "nobody", "--blocked"), 1, "There is no key 'nobody'.\n"),
    ],
)
def test_what_cannot_be_done_is_said(terminal: Terminal, arguments: tuple[str, ...], code: int, said: str) -> None:
    """On stderr; 2 is for what was asked wrongly."""
    failed = terminal.fails(*arguments)

    assert code == failed[0]
    assert said in failed[1]
