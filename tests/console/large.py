"""A gateway with 500 workers, 2,000 keys and names of 80 characters."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.console.batches import new_batch
from tests.console.load import load
from tests.console.processes import Running, served, simulator

WORKERS = 500
KEYS = 2000
TEAM = "a-team-with-a-name-of-63-characters-which-is-the-longest-that-i"
"""Names of teams have at most 63 characters."""
LONG = "a-name-of-80-characters-as-deployments-generate-them-from-regions-zones-and-pods"
REQUESTS = 40
BATCHES = 8


@contextmanager
def large(folder: Path) -> Iterator[Running]:
    """Start the gateway in front of one simulated worker with 500 addresses, and send it a few requests."""
    with simulator("--host", "0.0.0.0", "--model", "tiny") as url, served(folder, _settings(url, folder)) as running:
        headers = {"authorization": f"Bearer {_secret(0)}", "x-session-id": LONG, "user-agent": LONG}
        body = {"model": "tiny", "max_tokens": 2, "messages": [{"role": "user", "content": "Tell me about the moon."}]}
        with httpx.Client(base_url=running.url, headers=headers, timeout=60) as http:
            for _ in range(REQUESTS):
                assert http.post("/v1/chat/completions", json=body).is_success
            http.post("/v1/chat/completions", json={**body, "model": LONG})
        for _ in range(BATCHES):
            new_batch(running.url, _secret(0), metadata={LONG[:64]: LONG}, file="{}\n" * 120)
        with load(running.url, {TEAM: _secret(0)}, pause_s=0.5):
            yield running


def _settings(url: str, folder: Path) -> dict[str, Any]:
    port = url.rpartition(":")[2]
    addresses = [f"http://127.0.{number // 200}.{number % 200 + 1}:{port}" for number in range(WORKERS)]
    ids = [LONG, *(f"worker-{number}" for number in range(2, WORKERS + 1))]
    workers = [{"id": name, "url": address} for name, address in zip(ids, addresses, strict=True)]
    price = {"input_usd": 0.5, "cached_input_usd": 0.05, "output_usd": 1.5}
    models = [
        {"name": "tiny", "aliases": [f"{LONG}-alias"], "workers": workers, "price": price},
        {"name": LONG, "workers": [{"id": "only", "url": addresses[0]}], "price": price, "upstream_model": "tiny"},
    ]
    keys = [{"id": f"key-{number}", "secret": _secret(number)} for number in range(KEYS)]
    keys[0]["id"] = f"{TEAM[:58]}-key1"
    teams = [{"name": TEAM, "keys": keys, "limits": {"usd_per_month": 1e6}}, {"name": "small"}]
    # One process answers for all workers: it is asked for its health rarely.
    health = {"interval_s": 60, "timeout_s": 30, "metrics_interval_s": 60}
    return {"models": models, "teams": teams, "health": health, "files": {"folder": str(folder / "files")}}


def _secret(number: int) -> str:
    return f"wg-large-{number:06d}-secret-of-the-console-tests"
