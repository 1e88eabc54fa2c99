"""The command `warmgate`. Exit codes: 0 fine, 1 failed while running, 2 bad configuration or usage."""

import argparse
import dataclasses
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.commands.admin import add_admin_commands
from gateway.configuration import Configuration
from gateway.demo import DemoOptions, end_with_stdin, run_demo
from gateway.server import ServerError, serve
from gateway.server.program_log import log_to_stderr, say
from gateway.settings import SettingsError, environment, masked
from routing.strategies import NAMES

if TYPE_CHECKING:
    from gateway.simulator.options import SimulatorOptions


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line *argv* (default: this process's) and return its exit code.

    Raises:
        SystemExit: from argparse, with 2 for bad usage and 0 after ``--help``.
    """
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except SettingsError as fault:
        for sentence in fault.sentences:
            say(sentence)
        return 2
    except ServerError as fault:
        say(str(fault))
        return 1
    except KeyboardInterrupt:
        return 0
    return code


def _serve(arguments: argparse.Namespace) -> int:
    # The other commands need no application.
    from gateway.app import create_app  # noqa: PLC0415

    configuration = Configuration(arguments.config, environment())
    settings = configuration.load()
    log_to_stderr(settings.logging.level, settings.logging.format)
    configuration.log_warnings()
    serve(settings, create_app=partial(create_app, configuration=configuration))
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    options = DemoOptions(workers=arguments.workers, strategy=arguments.strategy, port=arguments.port)
    run_demo(options, environ=environment())
    return 0


def _check(arguments: argparse.Namespace) -> int:
    configuration = Configuration(arguments.config, environment())
    settings = configuration.load()
    for warning in configuration.warnings:
        say(warning)
    print(masked(settings), end="")
    return 0


def _version(_: argparse.Namespace) -> int:
    try:
        print(f"warmgate {importlib.metadata.version('warmgate')}")
    except importlib.metadata.PackageNotFoundError:
        print("warmgate, run from its source tree (not installed)")
    return 0


def _simulate(arguments: argparse.Namespace) -> int:
    # The other commands need no simulator.
    from gateway.simulator.server import run  # noqa: PLC0415

    if arguments.write_tokenizer is not None:
        return _write_tokenizer(arguments.write_tokenizer)
    try:
        options = _simulator_options(arguments)
    except ValueError as fault:
        print(f"{fault}.", file=sys.stderr)
        return 2
    if arguments.exit_with_parent:
        end_with_stdin()
    try:
        run(options)
    except OSError as fault:
        # Numbers below zero are the resolver's, and unknown to strerror.
        reason = os.strerror(fault.errno) if fault.errno and fault.errno > 0 else fault.strerror or fault
        place = fault.filename or f"{options.host} port {options.port}"
        raise ServerError(f"Cannot listen on {place}: {reason}.") from fault
    return 0


def _simulator_options(arguments: argparse.Namespace) -> "SimulatorOptions":
    """Raises `ValueError`, naming the option, for what makes no worker."""
    from gateway.simulator.event_options import EventOptions  # noqa: PLC0415
    from gateway.simulator.options import SimulatorOptions  # noqa: PLC0415
    from gateway.simulator.roles import HalfOptions  # noqa: PLC0415

    events = _told(arguments, EventOptions, prefix="kv_events_")
    if events and not {"port", "dial"} & events.keys():
        raise ValueError("KV events need --kv-events-port or --kv-events-dial")
    return SimulatorOptions(
        **_told(arguments, SimulatorOptions),
        half=HalfOptions(**_told(arguments, HalfOptions)),
        kv_events=EventOptions(**events) if events else None,
    )


def _told(arguments: argparse.Namespace, options: type[Any], *, prefix: str = "") -> dict[str, Any]:
    """Of the fields of *options*, those that the command line says something of."""
    given = {field.name: getattr(arguments, prefix + field.name, None) for field in dataclasses.fields(options)}
    return {name: value for name, value in given.items() if value is not None}


def _write_tokenizer(folder: Path) -> int:
    from gateway.simulator.tokenizer_folder import write_tokenizer  # noqa: PLC0415

    try:
        write_tokenizer(folder)
    except OSError as fault:
        raise ServerError(f"Cannot write to {folder}: {fault.strerror or fault}.") from fault
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="warmgate", description="An OpenAI-compatible gateway that finds the worker with the warm KV cache."
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    config = argparse.ArgumentParser(add_help=False)
    config.add_argument(
        "--config", metavar="F", type=Path, help="YAML file; without it, everything comes from WARMGATE_* variables"
    )

    command = commands.add_parser("serve", parents=[config], help="run the gateway")
    command.set_defaults(run=_serve)
    command = commands.add_parser("check", parents=[config], help="validate and print the effective settings")
    command.set_defaults(run=_check)
    command = commands.add_parser("version", help="print the version")
    command.set_defaults(run=_version)
    _add_demo(commands.add_parser("demo", help="run the gateway over simulated workers"))
    _add_simulate(commands.add_parser("simulate", help="run one simulated worker"))
    add_admin_commands(commands)
    return parser


def _add_demo(command: argparse.ArgumentParser) -> None:
    command.set_defaults(run=_demo)
    command.add_argument("--workers", type=whole_number, default=3, help="simulated workers (default %(default)s)")
    command.add_argument("--strategy", choices=NAMES, default="prefix_aware", help="default %(default)s")
    command.add_argument("--port", type=port, default=8080, help="0 takes a free one (default %(default)s)")


def _add_simulate(command: argparse.ArgumentParser) -> None:
    command.set_defaults(run=_simulate)
    command.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    command.add_argument("--port", type=port, default=18101, help="0 takes a free one (default %(default)s)")
    command.add_argument("--model", default="tiny", help="name of the model (default %(default)s)")
    command.add_argument("--blocks", type=whole_number, default=2048, help="KV cache, in blocks (default %(default)s)")
    command.add_argument("--block-size", type=whole_number, default=16, help="tokens in a block (default %(default)s)")
    command.add_argument(
        "--prefill-tokens-per-s", type=positive_number, default=10000, help="speed of prefill (default %(default)s)"
    )
    command.add_argument(
        "--tpot-ms", type=positive_number, default=12, help="time per output token (default %(default)s)"
    )
    command.add_argument(
        "--speed", type=float, default=1, help="2 runs twice as fast, 0 as fast as it can (default %(default)s)"
    )
    command.add_argument(
        "--timing", choices=("chunked", "fifo"), default="chunked", help="timing model (default %(default)s)"
    )
    command.add_argument(
        "--stream-interval",
        metavar="N",
        type=whole_number,
        default=1,
        help="output tokens in an event of a stream, but for the first (default %(default)s)",
    )
    command.add_argument(
        "--dialect", choices=("vllm", "sglang", "dynamo"), default="vllm", help="whose routes, errors and metrics"
    )
    command.add_argument("--old-metrics", action="store_true", help="vLLM's metrics as they were up to 0.10.2")
    command.add_argument(
        "--shutdown-timeout",
        dest="shutdown_timeout_s",
        metavar="S",
        type=float,
        default=0,
        help="seconds that running requests may go on after SIGTERM (default %(default)s: they are cut)",
    )
    command.add_argument(
        "--lora-module", dest="lora_modules", metavar="NAME", action="append", help="a LoRA adapter to serve as well"
    )
    command.add_argument(
        "--lora-load-ms", metavar="MS", type=float, help="adapters can be loaded while it runs, each in so long"
    )
    command.add_argument(
        "--ranks", metavar="N", type=whole_number, default=1, help="data-parallel ranks (default %(default)s)"
    )
    command.add_argument("--enable-scale-out", action="store_true", help="answer vLLM's render routes")
    command.add_argument("--exit-with-parent", action="store_true", help="stop when standard input ends")
    command.add_argument(
        "--write-tokenizer", metavar="DIR", type=Path, help="write the tokenizer and its chat template there, and end"
    )
    _add_halves(command.add_argument_group("halves of requests", "with --role prefill or decode"))
    _add_kv_events(command.add_argument_group("KV events", "published once there is a port, or an address to dial"))


def _add_halves(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--role", choices=("both", "prefill", "decode"), default="both", help="what it does of a request (default both)"
    )
    group.add_argument(
        "--side-channel-port", type=port, help="prefill: where its blocks are asked for (default 0: a free one)"
    )
    group.add_argument("--side-channel-host", metavar="HOST", help="prefill: the host it tells (default localhost)")
    group.add_argument(
        "--transfer-us-per-token", metavar="US", type=float, help="decode: microseconds to fetch a token (default 5)"
    )
    group.add_argument("--lease-s", metavar="S", type=float, help="how long one half waits for the other (default 480)")


def _add_kv_events(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--kv-events-port", type=port, help="publish them here; 0 takes a free one")
    group.add_argument("--kv-events-dial", metavar="ADDRESS", help="publish them to a subscriber at tcp://host:port")
    group.add_argument(
        "--replay-port", dest="kv_events_replay_port", type=port, help="answer questions for past ones here"
    )
    group.add_argument("--kv-events-topic", metavar="TOPIC", help="default: empty")
    group.add_argument("--kv-events-format", choices=("map", "array"), help="as now, or as older engines (default map)")
    group.add_argument(
        "--kv-events-hashes", choices=("int", "bytes", "signed"), help="default signed for sglang, else int"
    )
    group.add_argument("--kv-events-replay-frames", type=int, choices=(4, 3), help="3 as vLLM up to 0.25 (default 4)")
    group.add_argument(
        "--kv-events-first-seq",
        dest="kv_events_first_sequence",
        type=int,
        choices=(0, 1),
        help="1 as llm-d's simulator (default 0)",
    )
    group.add_argument(
        "--kv-events-batch-s", metavar="S", type=float, help="collect them for so long (default 0: one batch per step)"
    )
    group.add_argument(
        "--kv-events-buffer-steps", metavar="N", type=whole_number, help="batches to keep for replay (default 10000)"
    )


def port(text: str) -> int:
    return _bounded(text, 0, 65535)


def whole_number(text: str) -> int:
    return _bounded(text, 1, 2**31)


def positive_number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def _bounded(text: str, least: int, most: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if not least <= value <= most:
        raise argparse.ArgumentTypeError(f"{text} is not between {least} and {most}")
    return value
