"""`warmgate demo`: simulated workers as child processes, and the gateway before them in this one.

The children never outlive the demo: each watches its standard input, which ends with this process however it dies.
"""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from pydantic import SecretStr

from gateway.server import CreateApp, ServerError, address_of, announce_on_stdout, bind, serve
from gateway.settings import Settings, build

MODEL = "tiny"
ALIASES = ("gpt-4o", "gpt-4o-mini")
ADMIN_TOKEN = "demo"  # noqa: S105
"""No secret: the demo listens on this machine only, and a web page cannot send the header without being given leave."""
QUESTION = (  # long enough to fill some blocks: a hit needs a whole one
    "You answer the questions of curious children. Keep to short sentences, use no formula, give one example from "
    "daily life, and end with a small experiment that needs nothing but a glass of water. Why is the sky blue?"
)
START_TIMEOUT_S = 30.0  # a cold start of the interpreter and its imports on a busy laptop takes some seconds
LINGER_S = 5.0  # between asking a worker to stop and killing it
SIMULATE = (
    *(sys.executable, "-m", "gateway", "simulate", "--port", "0", "--model", MODEL, "--exit-with-parent"),
    *("--kv-events-port", "0", "--replay-port", "0", "--enable-scale-out"),
)
"""One worker, which publishes what its cache holds, and tells the tokens of a prompt to who asks."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    workers: int = 3
    strategy: str = "prefix_aware"
    port: int = 8080
    host: str = "127.0.0.1"


def run_demo(
    options: DemoOptions,
    *,
    environ: Mapping[str, str],
    create_app: CreateApp | None = None,
    simulate: Sequence[str] = SIMULATE,
    linger_s: float = LINGER_S,
) -> None:
    """Start the workers (each by the command *simulate*) and the gateway; end them all on SIGINT or SIGTERM.

    Raises:
        ServerError: the port is taken (nothing has been started), or a worker did not start.
        SettingsError: a `WARMGATE_*` variable is wrong.
    """
    listener = bind(options.host, options.port)
    with (
        contextlib.closing(listener),
        _stopped_by_sigterm(),
        _children(simulate, options.workers, linger_s) as children,
        _tokenizer(options.strategy) as tokenizer,
    ):
        urls = [child.url(START_TIMEOUT_S) for child in children]
        address = address_of(listener, options.host)
        settings = demo_settings(replace(options, port=listener.getsockname()[1]), urls, environ, tokenizer=tokenizer)
        sys.stdout.write(introduction(address, [(child.pid, url) for child, url in zip(children, urls, strict=True)]))
        serve(settings, create_app=create_app, bound=listener, announce=announce_on_stdout)


def demo_settings(
    options: DemoOptions, urls: Sequence[str], environ: Mapping[str, str], *, tokenizer: Path | None = None
) -> Settings:
    """The settings of the demo. `WARMGATE_*` variables count here too, but for the address, which is *options*' own.

    *tokenizer* is the folder with that of the workers; without it, they are asked.
    """
    workers = [{"url": url} for url in urls]
    model: dict[str, Any] = {
        "name": MODEL,
        "aliases": list(ALIASES),
        "strategy": options.strategy,
        "workers": workers,
    }
    if tokenizer is not None:
        model["tokenizer"] = {"path": str(tokenizer)}
    settings = build({"models": [model]}, environ)
    token = settings.server.admin_token or SecretStr(ADMIN_TOKEN)
    server = settings.server.model_copy(update={"host": options.host, "port": options.port, "admin_token": token})
    return settings.model_copy(update={"server": server})


def introduction(address: str, workers: Sequence[tuple[int, str]]) -> str:
    """What to try, for the reader of the terminal; *workers* are process ids and URLs."""
    listed = "\n".join(f"    {url}   (stop it: kill {pid})" for pid, url in workers)
    return f"""
Warmgate with {len(workers)} simulated workers of the model {MODEL!r} (also called {", ".join(ALIASES)}):
{listed}

A request; send it twice and read x-warmgate-worker and x-warmgate-hit-blocks:
    curl -i {address}/v1/chat/completions -H 'content-type: application/json' \\
      -d '{{"model": "{MODEL}", "max_tokens": 32, "messages": [{{"role": "user", "content": "{QUESTION}"}}]}}'

The OpenAI SDK:
    from openai import OpenAI
    client = OpenAI(base_url="{address}/v1", api_key="any")
    print(client.chat.completions.create(model="gpt-4o", messages=[{{"role": "user", "content": "hello"}}]))

The workers, and where that request would go (the admin token is {ADMIN_TOKEN!r} unless you set one):
    curl {address}/warmgate/workers -H 'authorization: Bearer {ADMIN_TOKEN}'
    curl {address}/warmgate/explain -H 'authorization: Bearer {ADMIN_TOKEN}' -H 'content-type: application/json' \\
      -d '{{"model": "{MODEL}", "messages": [{{"role": "user", "content": "hello"}}]}}'

Metrics: {address}/metrics   Readiness: {address}/readyz   End: Ctrl-C

"""


class _Child:
    """A simulated worker in a process of its own."""

    def __init__(self, command: Sequence[str]) -> None:
        # A process group of its own keeps Ctrl-C from it: the gateway ends first, and its running requests with it.
        self._process = subprocess.Popen(  # noqa: S603 - the command is this program's own
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
        )
        self._url: Future[str] = Future()
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def url(self, timeout_s: float) -> str:
        """Its address, as soon as it accepts requests."""
        try:
            return self._url.result(timeout_s)
        except NotInTime:
            raise ServerError(f"A simulated worker was not ready after {timeout_s:g} s.") from None

    def stop(self) -> None:
        self._process.terminate()

    def join(self, timeout_s: float) -> None:
        """Wait for the end; what lingers is killed."""
        with self._process:
            try:
                self._process.wait(max(0.0, timeout_s))
            except subprocess.TimeoutExpired:
                self._process.kill()

    def _read(self, stdout: IO[str]) -> None:
        for line in stdout:  # to the end, so that the worker never waits for a full pipe
            if line.startswith("ready: ") and not self._url.done():
                self._url.set_result(line.removeprefix("ready: ").strip())
        if not self._url.done():
            self._url.set_exception(ServerError("A simulated worker ended while it started; its error is above."))


@contextlib.contextmanager
def _children(command: Sequence[str], count: int, linger_s: float) -> Iterator[list[_Child]]:
    children: list[_Child] = []
    try:
        children.extend(_Child(command) for _ in range(count))
        yield children
    finally:
        for child in children:
            child.stop()
        deadline_s = time.monotonic() + linger_s
        for child in children:
            child.join(deadline_s - time.monotonic())


@contextlib.contextmanager
def _tokenizer(strategy: str) -> Iterator[Path | None]:
    """A folder with the workers' tokenizer, for the strategy that can use it, if the packages for it are installed."""
    if strategy != "kv_aware" or not all(map(importlib.util.find_spec, ("jinja2", "tokenizers"))):
        yield None
        return
    # Nothing else here needs the simulator.
    from gateway.simulator.tokenizer_folder import write_tokenizer  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="warmgate-") as folder:
        write_tokenizer(Path(folder))
        yield Path(folder)


@contextlib.contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the block like Ctrl-C does; while the gateway serves, its own handling is in force."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def end_with_stdin(linger_s: float = LINGER_S) -> None:
    """End this process when its standard input does: by SIGTERM, and after *linger_s* without asking."""

    def watch() -> None:
        # Not through sys.stdin: a thread that waits inside its buffer breaks the interpreter's shutdown.
        while os.read(sys.stdin.fileno(), 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(linger_s)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
