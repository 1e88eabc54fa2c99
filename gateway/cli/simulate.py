"""`warmgate simulate`: run one simulated worker.

Imports the package `simulator` only when it runs.
"""

import argparse
import dataclasses
import importlib.util
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.server.listener import ServerError
from gateway.server.program_log import say

if TYPE_CHECKING:
    from simulator.options import SimulatorOptions

LINGER_S = 5.0
"""Seconds between a request to a simulated worker to stop and the killing of its process."""


def check_simulator() -> None:
    """Raise an error unless the package `simulator` is installed.

    Raises:
        ServerError: if the package is not installed. The container image does not include it.
    """
    if importlib.util.find_spec("simulator") is None:
        raise ServerError(
            "The simulator is not installed. The container image does not include it. "
            "Install the warmgate wheel, or build the image with the demo: docker build --target demo ."
        )


def add_simulate(command: argparse.ArgumentParser) -> None:
    """Add the options of `warmgate simulate` to *command*."""
    command.set_defaults(run=_simulate)
    command.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    command.add_argument(
        "--port", type=port, default=18101, help="port to listen on, or 0 for any free port (default %(default)s)"
    )
    command.add_argument("--model", default="tiny", help="name of the served model (default %(default)s)")
    command.add_argument(
        "--blocks", type=whole_number, default=2048, help="KV cache size in blocks (default %(default)s)"
    )
    command.add_argument(
        "--block-size", type=whole_number, default=16, help="tokens per KV block (default %(default)s)"
    )
    _add_timing(command)
    _add_engine(command)
    command.add_argument(
        "--enable-scale-out", action="store_true", help="serve vLLM's routes that render prompts to tokens"
    )
    command.add_argument("--exit-with-parent", action="store_true", help="stop when standard input is closed")
    command.add_argument(
        "--write-tokenizer",
        metavar="DIR",
        type=Path,
        help="write the tokenizer and its chat template to this folder and exit",
    )
    _add_pulls(
        command.add_argument_group("pulls", "KV blocks from the host tier of another worker, as with vLLM's p2p")
    )
    _add_host_tier(command.add_argument_group("host tier", "KV blocks in host memory, as with vLLM's offloading"))
    _add_halves(command.add_argument_group("prefill and decode", "options for --role prefill or decode"))
    _add_defects(command.add_argument_group("defects", "simulated faults, for testing how a gateway detects them"))
    _add_kv_events(command.add_argument_group("KV events", "KV events need --kv-events-port or --kv-events-dial"))


def _add_timing(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--prefill-tokens-per-s",
        type=positive_number,
        default=10000,
        help="prefill speed in tokens per second (default %(default)s)",
    )
    command.add_argument(
        "--tpot-ms", type=positive_number, default=12, help="milliseconds per output token (default %(default)s)"
    )
    command.add_argument(
        "--speed",
        type=float,
        default=1,
        help="speed relative to real time, or 0 for as fast as possible (default %(default)s)",
    )
    command.add_argument(
        "--timing",
        choices=("chunked", "fifo"),
        default="chunked",
        help="timing model of the simulated engine (default %(default)s)",
    )
    command.add_argument(
        "--stream-interval",
        metavar="N",
        type=whole_number,
        default=1,
        help="output tokens per stream event after the first (default %(default)s)",
    )


def _add_engine(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--dialect",
        choices=("vllm", "sglang", "dynamo"),
        default="vllm",
        help="inference engine to simulate (default %(default)s)",
    )
    command.add_argument("--old-metrics", action="store_true", help="use the metric names of vLLM up to 0.10.2")
    command.add_argument(
        "--shutdown-timeout",
        dest="shutdown_timeout_s",
        metavar="S",
        type=float,
        default=0,
        help="maximum seconds for running requests to finish after SIGTERM (default %(default)s)",
    )
    command.add_argument(
        "--lora-module",
        dest="lora_modules",
        metavar="NAME",
        action="append",
        help="LoRA adapter to serve in addition to the model; repeatable",
    )
    command.add_argument(
        "--lora-load-ms",
        metavar="MS",
        type=float,
        help="allow loading LoRA adapters at run time; each load takes MS milliseconds",
    )
    command.add_argument(
        "--ranks", metavar="N", type=whole_number, default=1, help="number of data-parallel ranks (default %(default)s)"
    )


def _add_host_tier(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--host-blocks",
        metavar="N",
        type=whole_number,
        help="number of blocks in the host tier of each rank (default: no host tier)",
    )
    group.add_argument(
        "--load-tokens-per-s",
        metavar="R",
        type=positive_number,
        help="tokens per second that are loaded from the host tier (default 200000)",
    )
    group.add_argument(
        "--load-ms", metavar="MS", type=float, help="fixed milliseconds per load from the host tier (default 0)"
    )


def _add_pulls(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--pull-port",
        metavar="PORT",
        type=int,
        help="port at which other workers pull blocks from the host tier; 0 for a free port (default: no pulls)",
    )
    group.add_argument(
        "--pull-tokens-per-s",
        metavar="R",
        type=positive_number,
        help="tokens per second that are pulled from another worker (default 100000)",
    )
    group.add_argument("--pull-ms", metavar="MS", type=float, help="fixed milliseconds per pull (default 30)")


def _add_halves(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--role",
        choices=("both", "prefill", "decode"),
        default="both",
        help="part of each request that the worker computes (default both)",
    )
    group.add_argument(
        "--side-channel-port",
        type=port,
        help="for prefill, port from which KV blocks are fetched (default 0 for any free port)",
    )
    group.add_argument(
        "--side-channel-host", metavar="HOST", help="for prefill, host name that the worker reports (default localhost)"
    )
    group.add_argument(
        "--transfer-us-per-token",
        metavar="US",
        type=float,
        help="for decode, microseconds to fetch the KV cache of one token (default 5)",
    )
    group.add_argument(
        "--lease-s", metavar="S", type=float, help="seconds that prefill and decode wait for each other (default 480)"
    )


def _add_defects(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--no-enable-prefix-caching",
        dest="enable_prefix_caching",
        action="store_false",
        default=None,
        help="disable prefix caching, like vLLM's option with the same name",
    )
    group.add_argument(
        "--hash-seed", metavar="N", type=int, help="seed of block hashes, like PYTHONHASHSEED in vLLM (default 0)"
    )
    group.add_argument(
        "--cached-tokens-factor",
        metavar="F",
        type=float,
        help="report F times the actual number of cached tokens (default 1)",
    )
    group.add_argument(
        "--reported-blocks", metavar="N", type=whole_number, help="KV cache size in blocks that the metrics report"
    )
    group.add_argument(
        "--reported-block-size", metavar="N", type=whole_number, help="block size in tokens that the metrics report"
    )
    group.add_argument("--clock-skew-s", metavar="S", type=float, help="seconds by which the worker's clock is ahead")
    group.add_argument(
        "--buffer-streams",
        action="store_true",
        default=None,
        help="send each stream only after its last event, like a buffering proxy",
    )


def _add_kv_events(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--kv-events-port", type=port, help="port for publishing KV events, or 0 for any free port")
    group.add_argument(
        "--kv-events-dial", metavar="ADDRESS", help="publish KV events to a subscriber at tcp://host:port"
    )
    group.add_argument(
        "--replay-port", dest="kv_events_replay_port", type=port, help="port for serving replays of past KV events"
    )
    group.add_argument("--kv-events-topic", metavar="TOPIC", help="topic of published KV events (default: empty)")
    group.add_argument(
        "--kv-events-format",
        choices=("map", "array"),
        help="encoding of KV events, map or, as in older engines, array (default map)",
    )
    group.add_argument(
        "--kv-events-hashes",
        choices=("int", "bytes", "signed"),
        help="type of block hashes in KV events (default: signed for sglang, int otherwise)",
    )
    group.add_argument(
        "--kv-events-replay-frames",
        type=int,
        choices=(4, 3),
        help="frames per replay reply; vLLM up to 0.25 sends 3 (default 4)",
    )
    group.add_argument(
        "--kv-events-first-seq",
        dest="kv_events_first_sequence",
        type=int,
        choices=(0, 1),
        help="first sequence number of KV events; llm-d's simulator starts at 1 (default 0)",
    )
    group.add_argument(
        "--kv-events-batch-s",
        metavar="S",
        type=float,
        help="seconds of KV events per batch, or 0 for one batch per step (default 0)",
    )
    group.add_argument(
        "--kv-events-buffer-steps",
        metavar="N",
        type=whole_number,
        help="number of KV event batches kept for replay (default 10000)",
    )


def _simulate(arguments: argparse.Namespace) -> int:
    check_simulator()
    from simulator.server import run  # noqa: PLC0415

    if arguments.write_tokenizer is not None:
        return _write_tokenizer(arguments.write_tokenizer)
    try:
        options = _simulator_options(arguments)
    except ValueError as fault:
        say(f"{fault}.")
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
    """Return the options for the simulator that are given on the command line.

    Raises:
        ValueError: if an option is invalid. The message names the option.
    """
    from simulator.defects import Defects  # noqa: PLC0415
    from simulator.event_options import EventOptions  # noqa: PLC0415
    from simulator.options import SimulatorOptions  # noqa: PLC0415
    from simulator.roles import HalfOptions  # noqa: PLC0415

    events = _given(arguments, EventOptions, prefix="kv_events_")
    if events and not {"port", "dial"} & events.keys():
        raise ValueError("KV events need --kv-events-port or --kv-events-dial")
    return SimulatorOptions(
        **_given(arguments, SimulatorOptions),
        half=HalfOptions(**_given(arguments, HalfOptions)),
        defects=Defects(**_given(arguments, Defects)),
        kv_events=EventOptions(**events) if events else None,
    )


def _given(arguments: argparse.Namespace, options: type[Any], *, prefix: str = "") -> dict[str, Any]:
    """Return the fields of *options* that are set on the command line."""
    given = {field.name: getattr(arguments, prefix + field.name, None) for field in dataclasses.fields(options)}
    return {name: value for name, value in given.items() if value is not None}


def _write_tokenizer(folder: Path) -> int:
    from simulator.tokenizer_folder import write_tokenizer  # noqa: PLC0415

    try:
        write_tokenizer(folder)
    except OSError as fault:
        raise ServerError(f"Cannot write to {folder}: {fault.strerror or fault}.") from fault
    return 0


def end_with_stdin(linger_s: float = LINGER_S) -> None:
    """End this process with SIGTERM when its standard input closes, and kill the process *linger_s* seconds later."""

    def watch() -> None:
        # Not through sys.stdin: a thread that waits inside its buffer breaks the interpreter's shutdown.
        while os.read(sys.stdin.fileno(), 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(linger_s)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def port(text: str) -> int:
    return _bounded(text, 0, 65535)


def whole_number(text: str) -> int:
    return _bounded(text, 1, 2**31)


def process_count(text: str) -> int:
    return _bounded(text, 0, 1024)


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
