"""The commands for administrators, all of them."""

import argparse

from gateway.commands.audit import add_audit
from gateway.commands.keys import add_key
from gateway.commands.store import add_store
from gateway.commands.subcommands import Subcommands
from gateway.commands.teams import add_team
from gateway.commands.usage import add_usage
from gateway.commands.workers import add_workers


def add_admin_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    added = Subcommands(commands)
    add_team(added)
    add_key(added)
    add_workers(added)
    add_usage(added)
    add_audit(added)
    add_store(commands)
