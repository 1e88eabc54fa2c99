from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.backends.http_client import HttpClient
from tests.fakes.bedrock import ENVIRONMENT, FOREIGN_ENVIRONMENT, FakeBedrock


@pytest.fixture(autouse=True)
def aws_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FOREIGN_ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
async def fake() -> AsyncIterator[FakeBedrock]:
    async with FakeBedrock().serving() as fake:
        yield fake


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with HttpClient(trust_env=False) as client:
        yield client
