"""`warmgate demo`: start simulated workers as child processes, and a gateway that routes requests to them.

Each child stops when its standard input closes, so no child outlives the demo. The demo has one team with one key, and
one administrator. Both secrets are generated at every start and printed once.
"""

import contextlib
import importlib.util
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from pydantic import SecretStr

from gateway.app.announcements import announce_on_stdout
from gateway.app.application import create_app as create_gateway
from gateway.app.serving import CreateApp, serve
from gateway.cli.simulate import LINGER_S
from gateway.server.listener import ServerError, address_of, bind
from gateway.settings import Settings, build
from gateway.tenancy.teams.secret import new_secret
from routing.strategies import STRATEGIES
from simulator.tokenizer_folder import write_tokenizer

MODEL = "tiny"
ALIASES = ("gpt-4o", "gpt-4o-mini")
TEAM = "demo"
KEY_ID = "demo"
ADMIN_ID = "admin"
PROGRAM = "warmgate"
BELOW = "THE_ADDRESS_BELOW"
"""Placeholder for the URL of a port whose number is not known before the port is open."""
YOURS = "YOUR_KEY"
"""Placeholder for a secret that comes from an environment variable and that the demo does not print."""
LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound
"""Addresses to connect to in examples, by the wildcard address on which the gateway listens."""
PRICE = {"input_usd": 0.5, "cached_input_usd": 0.05, "output_usd": 1.5}
"""Invented prices, so that budgets and the ledger show amounts."""
QUESTION = (  # long enough to fill some blocks: a hit needs a whole one
    "You answer the questions of curious children. Keep to short sentences, use no formula, give one example from "
    "daily life, and end with a small experiment that needs nothing but a glass of water. Why is the sky blue?"
)
START_TIMEOUT_S = 30.0  # a cold start of the interpreter and its imports on a busy laptop takes some seconds
SIMULATE = (
    *(sys.executable, "-m", "gateway", "simulate", "--port", "0", "--model", MODEL, "--exit-with-parent"),
    *("--kv-events-port", "0", "--replay-port", "0", "--enable-scale-out"),
)
"""Command that starts a simulated worker. This worker publishes KV events and returns the tokens of prompts."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    workers: int = 3
    strategy: str = "prefix_aware"
    port: int = 8080
    host: str = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class DemoStart:
    """Secrets and files that the demo generates at every start."""

    key: str = field(repr=False)
    """Secret of the API key for the demo team."""
    admin: str = field(repr=False)
    """Secret of the admin key for the demo."""
    console: str = field(repr=False)
    """Token of the one-time link to the console."""
    store: Path
    """SQLite file for the keys that users create and for the ledger."""
    tokenizer: Path | None = None
    """Folder with the workers' tokenizer, or None if the gateway requests tokens from the workers."""


def run_demo(
    options: DemoOptions,
    *,
    environ: Mapping[str, str],
    create_app: CreateApp | None = None,
    simulate: Sequence[str] = SIMULATE,
    linger_s: float = LINGER_S,
) -> None:
    """Start each worker with the command *simulate*, and then the gateway. Stop all of them on SIGINT or SIGTERM.

    Raises:
        ServerError: if the port is in use (then nothing was started), or a worker did not start.
        SettingsError: if a `WARMGATE_*` variable is invalid.
    """
    listener = bind(options.host, options.port)
    with (
        contextlib.closing(listener),
        _stopped_by_sigterm(),
        _children(simulate, options.workers, linger_s) as children,
        tempfile.TemporaryDirectory(prefix="warmgate-") as folder,
    ):
        urls = [child.url(START_TIMEOUT_S) for child in children]
        address = address_of(listener, LOOPBACK.get(options.host, options.host))
        start = _start(Path(folder), options.strategy)
        settings = demo_settings(replace(options, port=listener.getsockname()[1]), urls, environ, start)
        workers = [(child.pid, url) for child, url in zip(children, urls, strict=True)]
        sys.stdout.write(introduction(address, workers, settings, start))
        create_app = create_app or partial(create_gateway, login_token=start.console)
        serve(settings, create_app=create_app, bound=listener, announce=announce_on_stdout)


def demo_settings(options: DemoOptions, urls: Sequence[str], environ: Mapping[str, str], start: DemoStart) -> Settings:
    """Return the settings of the demo. `WARMGATE_*` variables override all of them except the listening address."""
    workers = [{"id": f"worker-{number}", "url": url} for number, url in enumerate(urls, 1)]
    model: dict[str, Any] = {
        "name": MODEL,
        "aliases": list(ALIASES),
        "strategy": options.strategy,
        "workers": workers,
        "price": PRICE,
        "continuation": "tokens",
    }
    if start.tokenizer is not None:
        model["tokenizer"] = {"path": str(start.tokenizer)}
    data: dict[str, Any] = {
        "models": [model],
        "teams": [{"name": TEAM, "keys": [{"id": KEY_ID, "secret": start.key}]}],
        "admin": {"keys": [{"id": ADMIN_ID, "role": "owner", "secret": start.admin}]},
        "console": {"enabled": importlib.util.find_spec("jinja2") is not None},
        "request_shapes": {"enabled": True},
        "store": {"url": _url_of(start.store)},
        "files": {"folder": str(start.store.parent / "files")},
        "server": {"hit_headers": "shared"},  # there is but one team
    }
    settings = build(data, environ)
    server = settings.server.model_copy(update={"host": options.host, "port": options.port})
    return settings.model_copy(update={"server": server})


def introduction(address: str, workers: Sequence[tuple[int, str]], settings: Settings, start: DemoStart) -> str:
    """Return example commands to print in the terminal. *workers* has process IDs and URLs, in settings order.

    The text shows secrets generated for the demo, but never a secret that the operator has set.
    """
    listed = "\n".join(
        f"    worker-{number}: {url}   (stop it: kill {pid})" for number, (pid, url) in enumerate(workers, 1)
    )
    key = _shown_secret(start.key, [key.secret for team in settings.teams for key in team.keys])
    admin = _shown_secret(start.admin, [key.secret for key in settings.admin.keys])
    console = _console_link(address, settings, start)
    program = PROGRAM if shutil.which(PROGRAM) else f"{Path(sys.executable).parent}/{PROGRAM}"
    return f"""
Warmgate with {len(workers)} simulated workers of the model {MODEL!r} (also called {", ".join(ALIASES)}):
{listed}

The key for this demo, shown only once. Requests without a key get status 401:
    {key}

{console}Send this request twice and compare x-warmgate-worker and x-warmgate-hit-blocks:
    curl -i {address}/v1/chat/completions -H 'authorization: Bearer {key}' \\
      -H 'content-type: application/json' \\
      -d '{{"model": "{MODEL}", "max_tokens": 32, "messages": [{{"role": "user", "content": "{QUESTION}"}}]}}'

Use the OpenAI SDK:
    from openai import OpenAI
    client = OpenAI(base_url="{address}/v1", api_key="{key}")
    print(client.chat.completions.create(model="gpt-4o", messages=[{{"role": "user", "content": "hello"}}]))

Start a stream, kill the worker named in its header, and watch another worker continue it:
    curl -iN {address}/v1/chat/completions -H 'authorization: Bearer {key}' -H 'content-type: application/json' \\
      -d '{{"model": "{MODEL}", "stream": true, "max_tokens": 4000, "ignore_eos": true,
          "messages": [{{"role": "user", "content": "go on"}}]}}'

Show the key's usage: curl {address}/v1/usage -H 'authorization: Bearer {key}'

Manage teams, keys and limits with the admin key of this demo (data {_kept_in(settings, start)}):
    export WARMGATE_ADMIN_URL={_admin_address(address, settings)} WARMGATE_ADMIN_KEY={admin}
    {program} team create blue --limit requests_per_minute=6
    {program} key create --team blue
    {program} usage --by team,key
    {program} workers list

Show where a request would be routed, with the admin key:
    curl {address}/warmgate/explain -H 'authorization: Bearer {admin}' -H 'content-type: application/json' \\
      -d '{{"model": "{MODEL}", "messages": [{{"role": "user", "content": "hello"}}]}}'

Metrics: {address}/metrics   Readiness: {address}/readyz   Stop: Ctrl-C

"""


def _console_link(address: str, settings: Settings, start: DemoStart) -> str:
    if not settings.console.enabled:
        return ""
    place = f"{_admin_address(address, settings)}/console"
    return f"""Open the console. This link logs in once, within 10 minutes:
    {place}/login?token={start.console}

"""


def _shown_secret(secret: str, in_force: Iterable[SecretStr | None]) -> str:
    is_in_force = any(one is not None and one.get_secret_value() == secret for one in in_force)
    return secret if is_in_force else YOURS


def _kept_in(settings: Settings, start: DemoStart) -> str:
    if settings.store.url == _url_of(start.store):
        return "in a temporary file, deleted on exit; to keep it, set WARMGATE_STORE__URL=sqlite:///warmgate.db"
    return "in the configured store"


def _url_of(store: Path) -> str:
    return f"sqlite:///{store}"


def _admin_address(address: str, settings: Settings) -> str:
    if settings.admin.port is None:
        return address
    if settings.admin.port == 0:
        return BELOW
    return f"http://{settings.admin.host or settings.server.host}:{settings.admin.port}"


class _Child:
    """Child process that runs a simulated worker."""

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
        """Return the URL of the simulated worker as soon as it accepts requests."""
        try:
            return self._url.result(timeout_s)
        except NotInTime:
            raise ServerError(f"A simulated worker was not ready after {timeout_s:g} s.") from None

    def stop(self) -> None:
        self._process.terminate()

    def join(self, timeout_s: float) -> None:
        """Wait at most *timeout_s* seconds for the process to exit, and kill it if it still runs."""
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
            self._url.set_exception(
                ServerError("A simulated worker exited while starting. Its error message is above.")
            )


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


def _start(folder: Path, strategy: str) -> DemoStart:
    return DemoStart(
        key=new_secret(KEY_ID),
        admin=new_secret(ADMIN_ID),
        console=secrets.token_urlsafe(32),
        store=folder / "warmgate.db",
        tokenizer=_tokenizer(folder / "tokenizer") if STRATEGIES[strategy].needs_events else None,
    )


def _tokenizer(folder: Path) -> Path | None:
    """Write the simulated workers' tokenizer to *folder*.

    Return the folder, or None if required packages are missing.
    """
    if not all(map(importlib.util.find_spec, ("jinja2", "tokenizers"))):
        return None
    write_tokenizer(folder)
    return folder


@contextlib.contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C inside the block. While the gateway is serving, its own signal handlers apply."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
