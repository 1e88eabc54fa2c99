"""Registration of all administration commands on the command line."""

import argparse

from gateway.cli.commands.audit import add_audit
from gateway.cli.commands.keys import add_key
from gateway.cli.commands.login import add_login
from gateway.cli.commands.store import add_store
from gateway.cli.commands.subcommands import Subcommands
from gateway.cli.commands.teams import add_team
from gateway.cli.commands.usage import add_usage
from gateway.cli.commands.what_if import add_what_if
from gateway.cli.commands.workers import add_workers


def add_admin_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    added = Subcommands(commands)
    add_team(added)
    add_key(added)
    add_workers(added)
    add_usage(added)
    add_audit(added)
    add_what_if(added)
    add_store(commands)
    add_login(commands)
