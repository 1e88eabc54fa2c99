"""What the tests share: an identity provider as a process, and the gateway program that trusts it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from benchmarks.processes import GATEWAY_COMMAND, Processes, start_stub_worker
from tests.identity.environment import PROGRAM
from tests.identity.provider import AUDIENCE, SERVICE, Provider

ADMIN = "the-admins-own-key"
LEEWAY_S = 300
GROUPS = {"alice": ["llm-research"], "bob": ["llm-research"], "olga": ["warmgate-owners"], SERVICE: ["llm-batch"]}


@dataclass(frozen=True, slots=True)
class Gateway:
    """A client of the gateway program."""

    http: httpx.Client

    def ask(self, token: str) -> httpx.Response:
        body = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 3}
        return self.http.post("/v1/chat/completions", json=body, headers={"authorization": f"Bearer {token}"})

    def outcome(self, token: str) -> tuple[int, str | None]:
        """Return the status of a request with *token*, and the code of the error, if it is one."""
        response = self.ask(token)
        return response.status_code, response.json().get("error", {}).get("code")

    def admin(self, method: str, path: str, **more: Any) -> httpx.Response:
        return self.http.request(method, f"/admin/v1/{path}", headers={"authorization": f"Bearer {ADMIN}"}, **more)


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    if not PROGRAM.exists():
        pytest.exit("oidc-provider is not installed here: python -m tests.identity.environment", returncode=2)
    with Processes() as started:
        yield started


@pytest.fixture
def provider(processes: Processes, tmp_path: Path) -> Iterator[Provider]:
    made = Provider(processes, tmp_path, GROUPS)
    made.start()
    yield made
    if made.is_running:
        made.stop()


def gateway_settings(provider: Provider, folder: Path, worker: str) -> dict[str, Any]:
    """Settings of a gateway that trusts *provider*. Its keys are read again each second."""
    rules = [{"value": "llm-*", "team": "{rest}", "create_team": {}}]
    issuer = {
        "name": "provider",
        "issuer": provider.url,
        "audiences": [AUDIENCE],
        "rules": rules,
        "admin_roles": [{"value": "warmgate-owners", "role": "owner"}],
        "refresh_s": 1,
        "leeway_s": LEEWAY_S,
    }
    return {
        "server": {"port": 0},
        "models": [{"name": "tiny", "workers": [{"id": "stub", "url": worker}]}],
        "identity": {"issuers": [issuer]},
        "store": {"url": f"sqlite:///{folder}/warmgate.db"},
        "admin": {"keys": [{"id": "admin", "role": "owner", "secret": ADMIN}]},
    }


@pytest.fixture(scope="session")
def worker(processes: Processes) -> str:
    """Address of a worker that answers at once."""
    return start_stub_worker(processes)[1]


@pytest.fixture
def gateway(processes: Processes, provider: Provider, worker: str, tmp_path: Path) -> Iterator[Gateway]:
    config = tmp_path / "gateway.yaml"
    config.write_text(yaml.safe_dump(gateway_settings(provider, tmp_path, worker)))
    child = processes.start(tmp_path.name, [*GATEWAY_COMMAND, "--config", str(config)])
    url = child.wait_for_ready_line(timeout_s=120)  # the machine may be busy, and each test starts a gateway
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
        yield Gateway(http)
    child.stop(timeout_s=60)
