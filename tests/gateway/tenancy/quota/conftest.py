"""Fixtures of the quota stores."""

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.contracts.embedded_quota import EmbeddedStage
from tests.gateway.tenancy.quota.redis_field import Field
from tests.gateway.tenancy.quota.watched_file import WatchedFile
from tests.storage import RedisServer


@pytest.fixture
async def file(tmp_path: Path) -> AsyncIterator[WatchedFile]:
    made = WatchedFile(tmp_path / "quota.db")
    yield made
    await made.aclose()


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[EmbeddedStage]:
    made = EmbeddedStage(tmp_path / "quota.db")
    await made.begin()
    yield made
    await made.close()


@pytest.fixture
async def field(redis_server: RedisServer) -> AsyncIterator[Field]:
    field = Field(redis_server)
    try:
        yield field
    finally:
        for gateway in field.gateways:
            with suppress(AssertionError):
                await gateway.die()


@pytest.fixture
def durable(field: Field, durable_redis_server: RedisServer) -> Field:
    """Its Redis keeps what it answered when it is killed."""
    field.server = durable_redis_server
    return field
