import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from benchmarks.peers.environment import PEERS
from benchmarks.peers.routers import LiteLlm, Place, Router, SglangGateway, Smg, VllmRouter, start_router
from benchmarks.processes import ChildFailedError, Processes

WORKERS = ["http://127.0.0.1:1", "http://127.0.0.1:2"]
ROUTERS: Sequence[Router] = (SglangGateway(), Smg(), VllmRouter("round_robin"), LiteLlm())

SERVER = """
import http.server, json, sys
port, answers = int(sys.argv[1]), json.loads(sys.argv[2])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(answers.pop(0) if len(answers) > 1 else answers[0]).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        print("asked for", self.path, flush=True)
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


@dataclass(frozen=True, slots=True)
class Scripted:
    """A router that says of its workers what *answers* say, one after the other; without any, it ends."""

    answers: Sequence[object]
    name: str = "scripted router"
    peer: str = "none"

    def command(self, place: Place, workers: Sequence[str]) -> list[str]:
        program = SERVER if self.answers else "print('no good reason')"
        return [sys.executable, "-c", program, str(place.port), json.dumps(self.answers)]

    def environment(self) -> Mapping[str, str]:
        return {}

    def is_ready(self, url: str, workers: int) -> bool:
        return SglangGateway().is_ready(url, workers)


def healthy(*are: bool) -> object:
    return {"workers": [{"url": url, "is_healthy": is_healthy} for url, is_healthy in zip(WORKERS, are, strict=False)]}


@pytest.mark.parametrize("router", ROUTERS, ids=lambda router: router.name)
def test_a_router_listens_where_it_is_reported_and_knows_all_workers(router: Router, tmp_path: Path) -> None:
    command = router.command(Place(tmp_path / "bin", tmp_path, 4001, 4002), WORKERS)
    reported = " ".join([*command, *(path.read_text() for path in tmp_path.glob("*.yaml"))])

    assert str(tmp_path / "bin") in command[0]
    assert "4001" == command[command.index("--port") + 1]
    assert all(worker in reported for worker in WORKERS)
    assert router.name.split()[-1] in reported
    assert router.peer in PEERS


@pytest.mark.parametrize("router", ROUTERS[:3], ids=lambda router: router.name)
def test_what_it_counts_is_reported_on_a_port_of_its_own(router: Router, tmp_path: Path) -> None:
    command = router.command(Place(tmp_path / "bin", tmp_path, 4001, 4002), WORKERS)

    assert "4002" == command[command.index("--prometheus-port") + 1]


def test_litellm_asks_each_worker_by_the_api_that_it_has(tmp_path: Path) -> None:
    LiteLlm().command(Place(tmp_path, tmp_path, 4001, 4002), WORKERS)
    models = yaml.safe_load((tmp_path / "litellm.yaml").read_text())["model_list"]

    assert [f"{worker}/v1" for worker in WORKERS] == [model["litellm_params"]["api_base"] for model in models]
    assert {"tiny"} == {model["model_name"] for model in models}


@pytest.mark.e2e
def test_a_router_is_ready_when_it_takes_all_workers_for_healthy() -> None:
    """Its process answers before that."""
    answers = [{}, [], healthy(), healthy(True, False), healthy(True, True)]
    with Processes() as processes:
        child, url = start_router(processes, Scripted(answers), Path("/bin"), WORKERS, timeout_s=10.0)

        assert SglangGateway().is_ready(url, 2)
        assert not SglangGateway().is_ready(url, 3)
        assert not child.has_ended
        assert child.stderr.parent == processes.directory


@pytest.mark.e2e
def test_a_router_that_ends_says_why() -> None:
    with Processes() as processes, pytest.raises(ChildFailedError, match="no good reason"):
        start_router(processes, Scripted([]), Path("/bin"), WORKERS, timeout_s=10.0)


@pytest.mark.e2e
def test_a_router_that_does_not_find_its_workers_is_given_up() -> None:
    with Processes() as processes, pytest.raises(ChildFailedError, match=r"not ready after 0\.5 s"):
        start_router(processes, Scripted([healthy(True, False)]), Path("/bin"), WORKERS, timeout_s=0.5)
