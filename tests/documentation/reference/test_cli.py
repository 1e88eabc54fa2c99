from documentation.reference.cli import commands, page
from gateway.cli.main import command_parser


def section(name: str) -> str:
    return page().partition(f"## {name}\n")[2].partition("\n## ")[0]


def test_commands_are_listed_by_their_full_names() -> None:
    """Groups such as `warmgate team` do nothing themselves."""
    names = [command.name for command in commands(command_parser(), "warmgate")]

    assert "warmgate serve" in names
    assert "warmgate team create" in names
    assert "warmgate team" not in names


def test_an_option_shows_its_value_and_its_default() -> None:
    assert "| `--workers WORKERS` | Number of simulated workers (default 3). |" in section("warmgate demo")


def test_choices_are_listed() -> None:
    assert "`debug`, `info`, `warning`, `error`" in section("warmgate serve")


def test_usage_names_required_arguments() -> None:
    assert "```text\nwarmgate team create NAME [OPTIONS]\n```" in section("warmgate team create")
