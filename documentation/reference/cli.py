"""Page docs/reference/cli.md: every command of `warmgate` with its options."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from documentation.reference import markdown
from gateway.cli.main import command_parser

_INTRODUCTION = """\
This page lists for operators and developers every command of `warmgate`, with the arguments and options of the command.

| exit code | meaning |
|---|---|
| 0 | The command succeeded. |
| 1 | The command failed while it ran. `warmgate doctor` also exits with 1 if it finds an error or a warning. |
| 2 | The settings or the command line are wrong. |

Every command prints its options with `--help`. Commands that manage teams, keys, usage and workers call a running
gateway, if `--url` or the variable `WARMGATE_ADMIN_URL` names the gateway. Commands that call a gateway read the admin
key from the variable `WARMGATE_ADMIN_KEY`, or use the login of `warmgate login`. The commands of `warmgate batch` call
a gateway with the API key in the variable `WARMGATE_API_KEY`. With `--config`, commands open the store of the settings
file directly. The page [Doctor](doctor.md) describes what `warmgate doctor` checks, and the page
[The simulated worker](simulator.md) describes what `warmgate simulate` imitates."""


@dataclass(frozen=True, slots=True)
class Command:
    """Command that can be executed, with its full name."""

    name: str
    help: str
    parser: argparse.ArgumentParser


def page() -> str:
    found = list(commands(command_parser(), "warmgate"))
    rows = [(f"[`{each.name}`](#{each.name.replace(' ', '-')})", markdown.sentence(each.help)) for each in found]
    return markdown.page(
        "Commands",
        _INTRODUCTION,
        "## List of commands",
        markdown.table(("command", "purpose"), rows),
        *(_section(each) for each in found),
    )


def commands(parser: argparse.ArgumentParser, name: str, text: str = "") -> Iterator[Command]:
    """Yield every command below *parser* that has no subcommands.

    Private attributes are read, because argparse has no public way to list the commands of a parser.
    """
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001
    if not inner:
        yield Command(name, text, parser)
    for action in inner:
        helps = {each.dest: each.help or "" for each in action._choices_actions}  # noqa: SLF001
        for choice, below in action.choices.items():
            yield from commands(below, f"{name} {choice}", helps.get(choice, ""))


def _section(command: Command) -> str:
    actions = [
        action
        for action in command.parser._actions  # noqa: SLF001
        if action.dest != "help" and action.help != argparse.SUPPRESS
    ]
    usage = "\n".join(_usage(command.name, actions))
    actions.sort(key=lambda action: bool(action.option_strings))
    rows = [(markdown.code(_name(action)), _meaning(action, command.parser)) for action in actions]
    table = markdown.table(("argument or option", "meaning"), rows) if rows else ""
    return f"## {command.name}\n\n{markdown.sentence(command.help)}\n\n```text\n{usage}\n```\n\n{table}"


def _usage(name: str, actions: list[argparse.Action]) -> Iterator[str]:
    """Yield the lines of the usage text: the command, its required arguments, and a mark for its options."""
    required = [_name(action) for action in actions if not action.option_strings or action.required]
    options = ["[OPTIONS]"] if any(action.option_strings and not action.required for action in actions) else []
    yield " ".join([name, *required, *options])


def _name(action: argparse.Action) -> str:
    value = _value(action)
    return f"{', '.join(action.option_strings)} {value}".strip()


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    metavar = action.metavar if isinstance(action.metavar, str) else None
    value = metavar or action.dest.upper()
    return f"{value}..." if action.nargs in ("+", "*") else value


def _meaning(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    values = {**vars(action), "prog": parser.prog}
    text = markdown.sentence((action.help or "") % values) if action.help else ""
    choices = f"One of {', '.join(markdown.code(str(choice)) for choice in action.choices)}." if action.choices else ""
    return f"{text} {choices}".strip()
