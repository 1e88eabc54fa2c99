"""`warmgate config`: check a settings file, show the settings in effect, and print their JSON Schema."""

import argparse
import sys
from pathlib import Path

from gateway.app.config_source import ConfigSource, json_schema, process_environment
from gateway.server.program_log import say


def add_config_option(command: argparse.ArgumentParser) -> None:
    """Add the option that names the settings file."""
    command.add_argument(
        "-c",
        "--config",
        metavar="F",
        type=Path,
        help="YAML file; if omitted, all settings come from WARMGATE_* variables",
    )


def add_config_commands(command: argparse.ArgumentParser) -> None:
    """Add the subcommands `validate`, `show` and `schema` to the command `config`."""
    actions = command.add_subparsers(title="actions", metavar="ACTION", required=True)
    action = actions.add_parser("validate", help="check the settings, and print their faults and warnings")
    add_config_option(action)
    action.set_defaults(run=validate)
    action = actions.add_parser("show", help="print the settings in effect as YAML, with secrets masked")
    add_config_option(action)
    action.set_defaults(run=show)
    action = actions.add_parser("schema", help="print the JSON Schema of a settings file")
    action.set_defaults(run=schema)


def validate(arguments: argparse.Namespace) -> int:
    """Load the settings, and print their warnings and one line that summarizes them.

    Raises:
        SettingsError: a sentence for every fault.
    """
    source = _source(arguments)
    found = source.summary()
    _say_warnings(source)
    sys.stdout.write(f"valid: {found}\n")
    return 0


def show(arguments: argparse.Namespace) -> int:
    """Print the settings in effect as YAML, with secrets masked.

    Raises:
        SettingsError: a sentence for every fault.
    """
    source = _source(arguments)
    shown = source.shown()
    _say_warnings(source)
    sys.stdout.write(shown)
    return 0


def schema(_: argparse.Namespace) -> int:
    """Print the JSON Schema of a settings file."""
    sys.stdout.write(json_schema())
    return 0


def _source(arguments: argparse.Namespace) -> ConfigSource:
    return ConfigSource(arguments.config, process_environment())


def _say_warnings(source: ConfigSource) -> None:
    for warning in source.warnings:
        say(warning)
