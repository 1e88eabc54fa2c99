"""`warmgate workers`: list, add and remove workers."""

import argparse

from gateway.cli.commands.admin_client import AdminClient
from gateway.cli.commands.output import Output
from gateway.cli.commands.subcommands import Subcommands

_COLUMNS = ("model", "worker", "url", "source", "state", "in_flight", "reason")


def add_workers(commands: Subcommands) -> None:
    workers = commands.group("workers", help="list, add and remove workers")

    command = workers.command("list", _list, help="list all workers with their source and state")
    command.add_argument("--model", metavar="NAME", help="list only workers of this model")

    command = workers.command("add", _add, help="add a worker to a model, on all gateways that share the store")
    command.add_argument("address", metavar="ADDRESS", help="address of the model server, e.g. http://10.0.0.7:8000")
    command.add_argument(
        "--model", metavar="NAME", required=True, help="configured name of the model that the worker serves"
    )
    command.add_argument(
        "--id", metavar="ID", help="worker ID in headers, logs and metrics (default: derived from the URL)"
    )

    command = workers.command(
        "remove", _remove, help="remove a worker that was added with this command; its running requests continue"
    )
    command.add_argument("id", metavar="ID")
    command.add_argument("--model", metavar="NAME", required=True, help="model that the worker was added to")


async def _list(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    workers = (await client.get("workers"))["workers"]
    output.entities([each for each in workers if arguments.model in {None, each["model"]}], _COLUMNS)


async def _add(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    body = {"model": arguments.model, "url": arguments.address}
    if arguments.id is not None:
        body["id"] = arguments.id
    for worker in (await client.post("workers", body=body))["workers"]:
        output.entity(worker)


async def _remove(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    await client.delete("workers", query={"model": arguments.model, "worker": arguments.id})
    output.done(f"The worker {arguments.id} of the model {arguments.model} is removed.")
