"""The command `warmgate`.

Exit codes are 0 for success, 1 for a failure while running, and 2 for wrong settings or usage.
"""

import argparse
import importlib.metadata
import socket
import sys
from collections.abc import Sequence
from functools import partial

import shtab

from gateway.app.config_source import ConfigSource
from gateway.app.store_rules import StoreAddressError
from gateway.cli.batch import add_batch
from gateway.cli.commands.admin import add_admin_commands
from gateway.cli.config import add_config_commands, add_config_option, show
from gateway.cli.doctor.command import add_doctor
from gateway.cli.simulate import add_simulate, check_simulator, port, process_count, whole_number
from gateway.server.listener import ServerError
from gateway.server.program_log import log_to_stderr, say
from gateway.settings import SettingsError, environment
from routing.strategies import NAMES

LOG_LEVELS = ("debug", "info", "warning", "error")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line *argv* (by default the arguments of this process) and return the exit code.

    Raises:
        SystemExit: by argparse, with code 2 for wrong usage and code 0 after ``--help``.
    """
    arguments = command_parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except SettingsError as fault:
        for sentence in fault.sentences:
            say(sentence)
        return 2
    except StoreAddressError as fault:
        say(str(fault))
        return 2
    except ServerError as fault:
        say(str(fault))
        return 1
    except KeyboardInterrupt:
        return 0
    return code


def _serve(arguments: argparse.Namespace) -> int:
    if arguments.control is not None:
        return _serve_process(arguments)
    if arguments.processes is not None:
        return _serve_processes(arguments)
    # The other commands need no application, which takes half a second to import.
    from gateway.app.application import create_app  # noqa: PLC0415
    from gateway.app.serving import serve  # noqa: PLC0415

    configuration = ConfigSource(arguments.config, {**environment(), **_overrides(arguments)})
    settings = configuration.load()
    log_to_stderr(settings.logging.level, settings.logging.format)
    configuration.log_warnings()
    serve(settings, create_app=partial(create_app, configuration=configuration))
    return 0


def _serve_processes(arguments: argparse.Namespace) -> int:
    from gateway.app.mapping.surroundings import process_rules  # noqa: PLC0415
    from gateway.app.processes.child import cores  # noqa: PLC0415
    from gateway.app.processes.serving import serve_processes  # noqa: PLC0415

    environ = {**environment(), **_overrides(arguments)}
    configuration = ConfigSource(arguments.config, environ)
    settings = configuration.load()
    log_to_stderr(settings.logging.level, settings.logging.format, process=0)
    configuration.log_warnings()
    program = [sys.executable, "-P", "-m", "gateway"]
    config = [] if arguments.config is None else ["--config", str(arguments.config)]
    given = [("--host", arguments.host), ("--port", arguments.port), ("--log-level", arguments.log_level)]
    options = [text for name, value in given if value is not None for text in (name, str(value))]
    serve_processes(
        process_rules(settings, arguments.processes or cores()),
        [*program, "serve", *config, *options],
        environ=environ,
        initialize=[*program, "store", "init", *config],
        has_store_server=arguments.store_server,
        validate=partial(_is_valid, configuration),
    )
    return 0


def _is_valid(configuration: ConfigSource) -> bool:
    """Return whether the configuration is valid now, and log its errors."""
    try:
        configuration.load()
    except SettingsError as fault:
        for sentence in fault.sentences:
            say(f"The configuration was rejected and nothing has changed: {sentence}")
        return False
    return True


def _serve_process(arguments: argparse.Namespace) -> int:
    """Run one of the processes of a gateway, which the supervisor started."""
    from gateway.app.application import create_app  # noqa: PLC0415
    from gateway.app.processes.link import ProcessLink  # noqa: PLC0415
    from gateway.app.processes.whole_lines import WholeLines  # noqa: PLC0415
    from gateway.app.serving import Sockets, serve, stop_of  # noqa: PLC0415

    link = ProcessLink(socket.socket(fileno=arguments.control))
    assigned = link.assignment
    configuration = ConfigSource(arguments.config, {**environment(), **_overrides(arguments), **assigned.variables})
    settings = configuration.load()
    log_to_stderr(settings.logging.level, settings.logging.format, process=link.number)
    stop = stop_of(settings)
    stop.on_request(partial(link.send_soon, "stopping"))
    opened = [None if each is None else socket.socket(fileno=each) for each in (assigned.admin, assigned.probes)]
    sink = WholeLines(sys.stdout.buffer)
    serve(
        settings,
        create_app=partial(create_app, configuration=configuration, log_sink=sink, process=link),
        opened=Sockets(socket.socket(fileno=assigned.listener), *opened),
        announce=lambda _: link.send("ready"),
        announce_admin=lambda _: None,
        stop=stop,
    )
    link.send_last()
    return 0


def _picker(arguments: argparse.Namespace) -> int:
    from gateway.app.announcements import announce_picker_on_stdout, announcing  # noqa: PLC0415
    from gateway.app.application import create_app  # noqa: PLC0415
    from gateway.app.mapping.surroundings import picker_rules  # noqa: PLC0415
    from gateway.app.serving import serve, stop_of  # noqa: PLC0415

    configuration = ConfigSource(arguments.config, {**environment(), **_overrides(arguments)})
    settings = configuration.load()
    log_to_stderr(settings.logging.level, settings.logging.format)
    configuration.log_warnings()
    try:
        from gateway.app.picker import picker_beside  # noqa: PLC0415
    except ModuleNotFoundError as fault:
        raise ServerError(f"The picker needs the package {fault.name}. Install warmgate[picker].") from None
    announce = announcing("picker") if settings.logging.format == "json" else announce_picker_on_stdout
    stop = stop_of(settings)
    beside = picker_beside(picker_rules(settings), announce, stop)
    serve(settings, create_app=partial(create_app, configuration=configuration, beside=beside), stop=stop)
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    check_simulator()
    from gateway.cli.demo import DemoOptions, run_demo  # noqa: PLC0415

    environ = environment()
    # In a container, only an address other than the default can be reached from outside.
    host = environ.get("WARMGATE_SERVER__HOST") or "127.0.0.1"
    options = DemoOptions(workers=arguments.workers, strategy=arguments.strategy, port=arguments.port, host=host)
    run_demo(options, environ=environ)
    return 0


def _overrides(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the options of `serve` as the environment variables that they override."""
    given = {
        "WARMGATE_SERVER__HOST": arguments.host,
        "WARMGATE_SERVER__PORT": arguments.port,
        "WARMGATE_LOGGING__LEVEL": arguments.log_level,
        "WARMGATE_PICKER__LISTEN": getattr(arguments, "listen", None),
    }
    return {name: str(value) for name, value in given.items() if value is not None}


def _version(_: argparse.Namespace) -> int:
    print(_version_line())
    return 0


def _version_line() -> str:
    try:
        return f"warmgate {importlib.metadata.version('warmgate')}"
    except importlib.metadata.PackageNotFoundError:
        return "warmgate, run from its source tree (not installed)"


def _completion(arguments: argparse.Namespace) -> int:
    print(shtab.complete(command_parser(), arguments.shell))
    return 0


def command_parser() -> argparse.ArgumentParser:
    """Return the parser for the command line. The attribute `run` of its result is the function to call."""
    parser = argparse.ArgumentParser(
        prog="warmgate",
        description="OpenAI-compatible gateway that routes each request to a worker with a warm KV cache.",
    )
    parser.add_argument("--version", action="version", version=_version_line())
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    _add_serve(commands.add_parser("serve", help="run the gateway"))
    _add_picker(commands.add_parser("picker", help="run the endpoint picker for Envoy (ext_proc), beside the gateway"))
    command = commands.add_parser("check", help="validate and print the effective settings; the same as `config show`")
    add_config_option(command)
    command.set_defaults(run=show)
    add_config_commands(commands.add_parser("config", help="check and show settings, and print their JSON Schema"))
    command = commands.add_parser("version", help="print the version")
    command.set_defaults(run=_version)
    command = commands.add_parser("completion", help="print a completion script for a shell")
    command.add_argument("shell", choices=shtab.SUPPORTED_SHELLS, help="shell for which to print the completion script")
    command.set_defaults(run=_completion)
    _add_demo(commands.add_parser("demo", help="run the gateway with simulated workers"))
    add_simulate(commands.add_parser("simulate", help="run one simulated worker"))
    add_admin_commands(commands)
    add_batch(commands)
    add_doctor(commands)
    return parser


def _add_serve(command: argparse.ArgumentParser) -> None:
    command.set_defaults(run=_serve)
    _add_server_options(command)
    command.add_argument(
        "--processes",
        type=process_count,
        help="number of processes that serve the port together, or 0 for one per processor core; without this option, "
        "the gateway is one process without a supervisor",
    )
    command.add_argument(
        "--store-server",
        action="store_true",
        help="with --processes, run a Valkey server at the Unix socket of store.url, which keeps its data in the "
        "folder of the socket",
    )
    command.add_argument("--control", type=int, help=argparse.SUPPRESS)


def _add_picker(command: argparse.ArgumentParser) -> None:
    command.set_defaults(run=_picker)
    command.add_argument("--listen", help="address and port of the gRPC server instead of picker.listen")
    _add_server_options(command)


def _add_server_options(command: argparse.ArgumentParser) -> None:
    add_config_option(command)
    command.add_argument("--host", help="address to listen on instead of server.host")
    command.add_argument("--port", type=port, help="port to listen on instead of server.port, or 0 for any free port")
    command.add_argument("--log-level", choices=LOG_LEVELS, help="minimum log level, instead of logging.level")


def _add_demo(command: argparse.ArgumentParser) -> None:
    command.set_defaults(run=_demo)
    command.add_argument(
        "--workers", type=whole_number, default=3, help="number of simulated workers (default %(default)s)"
    )
    command.add_argument(
        "--strategy", choices=NAMES, default="prefix_aware", help="routing strategy (default %(default)s)"
    )
    command.add_argument(
        "--port", type=port, default=8080, help="port to listen on, or 0 for any free port (default %(default)s)"
    )
