import pytest

from tests.gateway.cli.commands.terminal import Terminal, terminal

__all__ = ["terminal"]


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ([], ["team", "key", "workers", "usage", "audit"]),
        (["team"], ["create", "list", "show", "update", "delete"]),
        (["workers"], ["list", "add", "remove"]),
        (["key"], ["create", "list", "show", "update", "rotate", "revoke"]),
    ],
)
def test_the_commands_are_reported_by_help(terminal: Terminal, command: list[str], named: list[str]) -> None:
    """With a line for each."""
    code, out, err = terminal.run(*command, "--help")

    assert (0, "") == (code, err)
    reported = [line.split()[0] for line in out.splitlines() if line.startswith("    ")]
    assert [] == [name for name in named if name not in reported]


def test_a_command_without_its_verb_is_bad_usage(terminal: Terminal) -> None:
    """Argparse says what is missing."""
    code, out, err = terminal.run("key")

    assert (2, "") == (code, out)
    assert "the following arguments are required: COMMAND" in err
