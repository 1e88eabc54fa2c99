"""A part of a budget that was used is given back by an administrator, and can be used again."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator

import pytest

from tests.e2e.governed import OWNER, Administration, administration, bearer, chat, governed
from tests.e2e.stack import Stack


@pytest.fixture
async def served() -> AsyncIterator[Stack]:
    async with governed(1) as started:
        yield started


@pytest.fixture
def admin(served: Stack) -> Administration:
    return administration(served)


async def test_what_is_given_back_can_be_used_again(served: Stack, admin: Administration) -> None:
    """Once, however often the same request is sent; the audit log says who did it and what it changed."""
    key = await admin.limited(tokens_per_day=20)

    async def status() -> int:
        return (await served.http.post("/v1/chat/completions", json=chat(), headers=key.headers)).status_code

    before = [await status(), await status()]
    wanted = {"measure": "tokens_per_day", "amount": 1000}
    path = f"/admin/v1/teams/{key.team}/credits"
    headers = {**bearer(OWNER), "idempotency-key": "k1"}
    given = [(await served.http.post(path, json=wanted, headers=headers)).json() for _ in range(2)]
    after = [await status(), await status()]

    assert [200, 429, 200, 429] == before + after
    assert given[0] == given[1]
    assert (True, 0.0) == (given[0]["used_before"] > 10, given[0]["used"])
    entries = (await admin.done("GET", "/audit"))["data"]
    (entry,) = [each for each in entries if each["action"] == "credit"]
    assert ("root", key.team, "tokens_per_day") == (entry["who"], entry["team"], entry["after"]["measure"])
    assert entry["before"]["used"] > entry["after"]["used"] == 0.0


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"measure": "usd_per_month", "amount": 1}, "measure"),
        ({"measure": "tokens_per_day", "amount": 1, "key": "nobody"}, "key"),
        ({"measure": "tokens_per_day", "amount": 0}, "amount"),
        ({"measure": "tokens_per_minute", "amount": 1}, "measure"),
    ],
)
async def test_what_cannot_be_given_back_is_refused(admin: Administration, body: dict[str, object], param: str) -> None:
    team = await admin.team(limits={"tokens_per_day": 20})
    answer = await admin.ask("POST", f"/teams/{team}/credits", body)

    assert (400, param) == (answer.status_code, answer.json()["error"]["param"])
    assert (
        404
        == (
            await admin.ask("POST", "/teams/nobody/credits", body | {"amount": 1, "measure": "usd_per_day"})
        ).status_code
    )


async def test_the_command_does_it_at_a_running_gateway(served: Stack, admin: Administration) -> None:
    team = await admin.team(limits={"usd_per_day": 2.5})
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "team", "credit", team, "--measure", "usd_per_day", "--amount", "1.5"),
        *("--url", served.url, "--json"),
        env={**os.environ, "WARMGATE_ADMIN_KEY": OWNER},
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()

    assert 0 == process.returncode
    assert {"team": team, "measure": "usd_per_day", "used": 0.0}.items() <= json.loads(said).items()
