from pathlib import Path

import pytest

from gateway.api.admin_v1.gateway_facts import StoreFacts
from gateway.app.diagnosis.store_facts import store_facts
from gateway.app.store_rules import StoreRules
from gateway.app.stores import initialize
from tests.gateway.examples import Clock
from tests.storage import RedisServer


async def test_a_file_that_is_not_there_is_not_created(tmp_path: Path) -> None:
    path = tmp_path / "warmgate.db"

    assert StoreFacts(kind="file") == await store_facts(StoreRules(path), wall_clock=Clock())
    assert not path.exists()


async def test_a_file_that_can_be_used(tmp_path: Path) -> None:
    rules = StoreRules(tmp_path / "warmgate.db", pepper=b"pepper-1")
    await initialize(rules, wall_clock=Clock())
    other = StoreRules(rules.file, pepper=b"pepper-2")

    assert StoreFacts(kind="file", state="ready") == await store_facts(rules, wall_clock=Clock())
    assert "pepper_differs" == (await store_facts(other, wall_clock=Clock())).state


async def test_redis_that_is_away() -> None:
    facts = await store_facts(StoreRules(None, url="redis://:hidden@127.0.0.1:1/0"), wall_clock=Clock())

    assert ("redis", "away") == (facts.kind, facts.state)
    assert facts.fault
    assert "hidden" not in facts.fault


@pytest.mark.redis
async def test_redis_that_was_not_initialized(redis_server: RedisServer) -> None:
    rules = StoreRules(None, url=redis_server.url)
    before = await store_facts(rules, wall_clock=Clock())
    await initialize(rules, wall_clock=Clock())

    assert ("redis", "uninitialized") == (before.kind, before.state)
    assert StoreFacts(kind="redis", state="ready") == await store_facts(rules, wall_clock=Clock())
