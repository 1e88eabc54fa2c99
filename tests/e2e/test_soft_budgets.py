"""A soft budget that is passed warns in answers, in metrics and in the log, and refuses nothing."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.tenancy.quota import soft_budgets
from tests.e2e.governed import Administration, MadeKey, administration, chat, governed
from tests.e2e.stack import Stack


@pytest.fixture
async def served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stack]:
    monkeypatch.setattr(soft_budgets, "LOOK_S", 0.02)
    async with governed(1) as started:
        yield started


async def answers_until_warned(served: Stack, key: MadeKey, *, stream: bool) -> list[httpx.Response]:
    answers: list[httpx.Response] = []
    async with asyncio.timeout(60):
        while not answers or "x-warmgate-budget-warning" not in answers[-1].headers:
            answers.append(
                await served.http.post("/v1/chat/completions", json=chat(stream=stream), headers=key.headers)
            )
    return answers


@pytest.mark.parametrize("stream", [False, True])
async def test_answers_beyond_a_soft_budget_carry_a_warning(served: Stack, stream: bool) -> None:
    """The first has none, all are served, and a key of another team is not warned."""
    admin: Administration = administration(served)
    key = await admin.limited(soft_usd_per_month=0.000001)
    other = await admin.limited(soft_usd_per_month=1000.0)
    answers = await answers_until_warned(served, key, stream=stream)
    free = await served.http.post("/v1/chat/completions", json=chat(), headers=other.headers)
    metrics = (await served.http.get("/metrics")).text

    assert {200} == {answer.status_code for answer in answers}
    assert "x-warmgate-budget-warning" not in answers[0].headers
    assert "team/usd_per_month" == answers[-1].headers["x-warmgate-budget-warning"]
    assert "x-warmgate-budget-warning" not in free.headers
    assert f'warmgate_team_soft_budget_used_ratio{{limit="team/usd_per_month",team="{key.team}"}}' in metrics


async def test_a_soft_budget_is_kept_with_its_team(served: Stack) -> None:
    admin = administration(served)
    team = await admin.team(limits={"soft_tokens_per_day": 5})
    made = await admin.ask("GET", f"/teams/{team}")
    await admin.done("PATCH", f"/teams/{team}", {"limits": {"soft_tokens_per_day": 7}})
    changed = await admin.ask("GET", f"/teams/{team}")
    entries = (await admin.done("GET", "/audit"))["data"]
    (entry,) = [each for each in entries if each["team"] == team and each["action"] == "update"]

    assert [{"soft_tokens_per_day": 5}, {"soft_tokens_per_day": 7}] == [
        each.json()["limits"] for each in (made, changed)
    ]
    assert made.headers["etag"] != changed.headers["etag"]
    assert ({"soft_tokens_per_day": 5}, {"soft_tokens_per_day": 7}) == (
        entry["before"]["limits"],
        entry["after"]["limits"],
    )
