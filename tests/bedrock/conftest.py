"""What the tests share: aimock in Bedrock's place, and the gateway program before it, all of whose workers are gone."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from openai import DefaultHttpxClient, OpenAI

from benchmarks.processes import Processes, free_port, start_gateway
from tests.bedrock.environment import AIMOCK, BIN, HERE
from tests.fakes.bedrock import ENVIRONMENT, FOREIGN_ENVIRONMENT, REGION

QWEN = "qwen.qwen3-32b-v1:0"
LLAMA = "us.meta.llama3-3-70b-instruct-v1:0"
NOVA = "us.amazon.nova-lite-v1:0"
GPT_OSS = "openai.gpt-oss-20b-1:0"
ARN = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"

FALLBACKS: dict[str, dict[str, Any]] = {
    "qwen": {"model_id": QWEN},
    "llama": {"model_id": LLAMA},
    "nova": {"model_id": NOVA},
    "gpt-oss": {"model_id": GPT_OSS, "wire": "openai"},
    "profile": {"model_id": ARN, "family": "claude"},
}

FAILING: dict[str, dict[str, Any]] = {
    "refusing": {"model_id": "deepseek.v3.2"},
    "refusing-openai": {"model_id": "openai.gpt-oss-120b-1:0", "wire": "openai"},
}
"""Those that a test lets fail: the gateway leaves them alone for a while afterwards."""


@dataclass(frozen=True, slots=True)
class Served:
    """Clients of the gateway, and what aimock has to tell."""

    openai: OpenAI
    http: httpx.Client
    bedrock: str

    def last_asked(self) -> dict[str, Any]:
        """The last request that aimock got, as it remembers it."""
        journal: list[dict[str, Any]] = self.http.get(f"{self.bedrock}/__aimock/journal").json()
        return journal[-1]


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    if not AIMOCK.exists():
        pytest.exit("aimock is not installed here: python -m tests.bedrock.environment", returncode=2)
    with pytest.MonkeyPatch.context() as environment, Processes() as processes:
        for name in FOREIGN_ENVIRONMENT:
            environment.delenv(name, raising=False)
        port = free_port()
        command = [str(BIN / "node"), str(AIMOCK), "--port", str(port), "--fixtures", str(HERE / "fixtures.json")]
        aimock = processes.start("aimock", [*command, "--strict", "--chunk-size", "7"])
        aimock.wait_for_port(port)
        bedrock = f"http://127.0.0.1:{port}"
        _, url = start_gateway(processes, settings(bedrock), environment=ENVIRONMENT)
        sdk_client = DefaultHttpxClient(trust_env=False)
        with (
            httpx.Client(base_url=url, timeout=60, trust_env=False) as http,
            OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0, http_client=sdk_client) as openai,
        ):
            yield Served(openai, http, bedrock)


def settings(bedrock: str) -> dict[str, Any]:
    """Those of a gateway that has a worker of each model, at an address where no one is."""
    unreachable = f"http://127.0.0.1:{free_port()}"
    return {
        "server": {"port": 0},
        "models": [
            {"name": name, "workers": [{"id": f"gone-{name}", "url": unreachable}], "bedrock": fallback}
            for name, fallback in (FALLBACKS | FAILING).items()
        ],
        "retry": {"wait_s": 0.1},
        "bedrock": {"region": REGION, "endpoint_url": bedrock, "canary_at_start": False},
    }


@pytest.fixture
def openai(served: Served) -> OpenAI:
    return served.openai
