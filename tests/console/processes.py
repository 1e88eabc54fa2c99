"""Gateways with a console in processes of their own: the demo as `make run` starts it, and `warmgate serve`."""

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx
import yaml

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0

SECRETS = {
    "olga": "owner-of-the-console-tests-0d1f2b",
    "otto": "operator-of-the-console-tests-7a9c4e",
    "vera": "viewer-of-the-console-tests-3e8d6a",
    "timo": "viewer-of-team-blue-in-the-console-tests-5b1c",
}
"""Secrets of the admin keys by their ids."""
ROLES = {"olga": "owner", "otto": "operator", "vera": "viewer", "timo": "viewer"}
TEAM_OF = {"timo": "blue"}
"""Teams to which admin keys are limited."""
SHORT_LOG = {"WARMGATE_LOGGING__REQUESTS": "false"}


@dataclass(frozen=True)
class Running:
    """A gateway that serves."""

    url: str
    key: str
    """Secret of an API key, or an empty text."""
    link: str
    """One-time link to the console, or an empty text."""
    process: subprocess.Popen[str]

    def admin(self, method: str, path: str, body: Any = None, *, by: str = "olga", **query: Any) -> Any:
        """Return the JSON that `/admin/v1` answers to the admin key *by*."""
        response = self.ask(method, path, body, by=by, **query)
        assert response.is_success, response.text
        return response.json() if response.content else None

    def ask(self, method: str, path: str, body: Any = None, *, by: str = "olga", **query: Any) -> httpx.Response:
        """Return the response of `/admin/v1` to the admin key *by*."""
        headers = {"authorization": f"Bearer {SECRETS[by]}"}
        address = f"{self.url}/admin/v1{path}"
        return httpx.request(method, address, json=body, params=query or None, headers=headers, timeout=60)

    def new_key(self, team: str) -> str:
        """Return the secret of a new API key of *team*."""
        made = self.admin("POST", "/keys", {"team": team})
        return str(made["secret"])


def admin_keys(ids: Sequence[str] = ("olga", "otto", "vera")) -> list[dict[str, str]]:
    """Return the setting `admin.keys` with the admin keys *ids*."""
    return [
        {"id": name, "role": ROLES[name], "secret": SECRETS[name]}
        | ({"team": TEAM_OF[name]} if name in TEAM_OF else {})
        for name in ids
    ]


def admin_keys_variable(*ids: str) -> dict[str, str]:
    """Return the environment variable that gives the demo the admin keys *ids*, or one of each role."""
    return {"WARMGATE_ADMIN__KEYS": json.dumps(admin_keys(ids) if ids else admin_keys())}


@contextmanager
def demo(*, workers: int = 3, environ: Mapping[str, str] | None = None) -> Iterator[Running]:
    """Run the command of `make run` on a free port. *environ* are additional environment variables."""
    command = (sys.executable, "-m", "gateway", "demo", "--port", "0", "--workers", str(workers))
    with _running(command, {**SHORT_LOG, **(environ or {})}) as running:
        yield running


@contextmanager
def served(folder: Path, settings: Mapping[str, Any], *, environ: Mapping[str, str] | None = None) -> Iterator[Running]:
    """Run `warmgate serve` with *settings* and with files in *folder*."""
    config = folder / "warmgate.yaml"
    complete = {
        "server": {"port": 0},
        "models": [{"name": "tiny", "workers": [{"id": "gone", "url": "http://127.0.0.1:9"}]}],
        "admin": {"keys": admin_keys()},
        "console": {"enabled": True},
        "store": {"url": f"sqlite:///{folder / 'warmgate.db'}"},
        **settings,
    }
    config.write_text(yaml.safe_dump(complete), encoding="utf-8")
    command = (sys.executable, "-m", "gateway", "serve", "--config", str(config))
    with _running(command, {**SHORT_LOG, **(environ or {})}) as running:
        yield running


@contextmanager
def simulator(*options: str) -> Iterator[str]:
    """Run a simulated worker and yield its URL."""
    command = (sys.executable, "-m", "gateway", "simulate", "--port", "0", *options)
    with _running(command, {}) as running:
        yield running.url


@contextmanager
def _running(command: Sequence[str], environ: Mapping[str, str]) -> Iterator[Running]:
    process = subprocess.Popen(command, env={**os.environ, **environ}, stdout=subprocess.PIPE, text=True)
    try:
        yield _started(process)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _started(process: subprocess.Popen[str]) -> Running:
    assert process.stdout is not None
    lines: queue.Queue[str | None] = queue.Queue()
    # To the end, so that the process never waits for a full pipe.
    threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
    key = link = ""
    while (line := lines.get(timeout=START_TIMEOUT_S)) is not None:
        text = line.strip()
        if re.fullmatch(r"wg-demo-\S+", text):
            key = text
        if re.fullmatch(r"http\S+/console/login\?token=\S+", text):
            link = text
        address = _address_in(text)
        if address is not None:
            return Running(address, key, link, process)
    raise AssertionError(f"The process ended with status {process.wait()} before it was ready: {process.args!r}")


def _address_in(line: str) -> str | None:
    if line.startswith("ready: "):
        return line.removeprefix("ready: ").strip()
    if line.startswith("{"):
        reported = json.loads(line)
        if reported.get("event") == "ready":
            return str(reported["address"])
    return None


def _read(stdout: IO[str], lines: "queue.Queue[str | None]") -> None:
    try:
        for line in stdout:
            lines.put(line)
    except ValueError:  # the pipe was closed at the end of the test
        return
    lines.put(None)
