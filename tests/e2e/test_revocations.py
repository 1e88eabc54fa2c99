"""A revocation on one of three gateways stops a token on all of them."""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from simulator.server import serving
from tests.e2e.gateway_process import GatewayProcess, gateway_process
from tests.e2e.governed import bearer, chat
from tests.e2e.stack import quick
from tests.gateway.app.test_key_sets import issuer, ok
from tests.gateway.tenancy.identity.signing import curve_key, jwk, key_set, token
from tests.storage import RedisServer

pytestmark = pytest.mark.redis

ADMIN = "the-admins-own-key"


async def status(gateway: GatewayProcess, said: str) -> int:
    response = await gateway.http.post("/v1/chat/completions", json=chat("Hello"), headers=bearer(said))
    return response.status_code


async def until(gateway: GatewayProcess, said: str, expected: int) -> None:
    async with asyncio.timeout(60):
        while await status(gateway, said) != expected:
            await asyncio.sleep(0.02)


async def test_a_revoked_session_is_refused_on_three_gateways_and_others_are_served(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    async with AsyncExitStack() as exits:
        address = await exits.enter_async_context(issuer({"/keys": ok(key_set(jwk(curve_key())))}))
        worker = await exits.enter_async_context(serving(quick()))
        rule = {"value": "llm", "team": "research", "create_team": {}}
        trusted = {"name": "okta", "issuer": address, "jwks_url": f"{address}/keys"}
        settings: dict[str, Any] = {
            "server": {"port": 0},
            "models": [{"name": "tiny", "workers": [{"url": worker, "id": "w"}]}],
            "identity": {"issuers": [{**trusted, "audiences": ["warmgate"], "rules": [rule]}]},
            "store": {"url": redis_server.url, "replicas": 3},
            "admin": {"keys": [{"id": "admin", "role": "operator", "secret": ADMIN}]},
            "health": {"interval_s": 0.2, "timeout_s": 10},
        }
        starting = [gateway_process(tmp_path, settings, name=name) for name in "abc"]
        gateways = await asyncio.gather(*(exits.enter_async_context(each) for each in starting))
        now = time.time()
        claims: dict[str, Any] = {"iss": address, "groups": ["llm"], "iat": now, "exp": now + 3000}
        stolen, other = token(sid="stolen", **claims), token(sid="other", **claims)
        for gateway in gateways:
            await until(gateway, stolen, 200)
            await until(gateway, other, 200)
        body = {"issuer": "okta", "scope": "session", "value": "stolen"}
        revoked = await gateways[0].http.post("/admin/v1/revocations", json=body, headers=bearer(ADMIN))

        assert 201 == revoked.status_code, revoked.text
        assert 401 == await status(gateways[0], stolen)
        await asyncio.gather(*(until(gateway, stolen, 401) for gateway in gateways))
        assert [200, 200, 200] == [await status(gateway, other) for gateway in gateways]
