"""What the gateway says of caches reports no team what another team has sent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.e2e.governed import bearer
from tests.e2e.stack import Stack, stack

BLUE, RED, ALONE = "wg-blue-0123456789abcdef", "wg-red-0123456789abcdef0", "wg-alone-0123456789abcde"
TEAMS: list[dict[str, Any]] = [
    {"name": "blue", "keys": [{"id": "b", "secret": BLUE}]},
    {"name": "red", "keys": [{"id": "r", "secret": RED}]},
    {"name": "alone", "isolated_cache": True, "keys": [{"id": "a", "secret": ALONE}]},
]
SECRET_TEXT = "The merger will be announced on the third of May, and until then nobody may know of it. " * 8
HITS = ["x-warmgate-hit-blocks", "x-warmgate-hit-tokens"]


@asynccontextmanager
async def served(hit_headers: str | None = None, *, teams: list[dict[str, Any]] = TEAMS) -> AsyncIterator[Stack]:
    server: dict[str, Any] = {} if hit_headers is None else {"server": {"hit_headers": hit_headers}}
    async with stack(2, teams=teams, **server) as running:
        yield running


async def ask(running: Stack, secret: str | None, text: str = SECRET_TEXT, *, stream: bool = False) -> httpx.Response:
    body = {"model": "tiny", "max_tokens": 2, "messages": [{"role": "user", "content": text}], "stream": stream}
    headers = {} if secret is None else bearer(secret)
    reply = await running.http.post("/v1/chat/completions", json=body, headers=headers)
    assert 200 == reply.status_code, reply.text
    return reply


def hits(reply: httpx.Response) -> list[str | None]:
    return [reply.headers.get(name) for name in HITS]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_guess_is_not_confirmed(stream: bool) -> None:
    """Whether another team has sent it or not, whole or in part, a team sees the same headers."""
    async with served() as running:
        await ask(running, BLUE)
        replies = [
            await ask(running, RED, text, stream=stream)
            for text in (SECRET_TEXT, SECRET_TEXT[:300] + "something else" * 40, "nobody has sent this. " * 30)
        ]

    assert [[None, None]] * 3 == [hits(reply) for reply in replies]
    assert 1 == len({tuple(sorted(set(reply.headers) - {"content-length"})) for reply in replies})


async def test_a_team_that_shares_with_no_one_sees_its_own_hits() -> None:
    """They are on nothing but what it has sent itself."""
    async with served() as running:
        await ask(running, BLUE)
        first, second = await ask(running, ALONE), await ask(running, ALONE)

    assert ["0", "0"] == hits(first)
    assert [True, True] == [int(value or 0) > 0 for value in hits(second)]


@pytest.mark.parametrize(("setting", "shown"), [("shared", True), ("off", False)])
async def test_an_operator_may_show_them_to_all_or_no_one(setting: str, shown: bool) -> None:
    async with served(setting) as running:
        for secret in (BLUE, ALONE):
            assert shown is (None not in hits(await ask(running, secret)))
    async with served(setting, teams=[]) as running:
        assert shown is (None not in hits(await ask(running, None)))


async def test_without_teams_they_are_shown() -> None:
    """There is no one from whom anything would have to be kept."""
    async with served(teams=[]) as running:
        assert None not in hits(await ask(running, None))


async def test_no_team_learns_where_a_request_would_go() -> None:
    """Explanations have the hits of every worker: they are administrators'."""
    async with stack(1, teams=TEAMS, admin={"keys": [{"role": "viewer", "secret": "adm-0123456789abcdef"}]}) as running:
        body = {"model": "tiny", "messages": [{"role": "user", "content": SECRET_TEXT}]}
        replies = [
            await running.http.post("/warmgate/explain", json=body, headers=headers)
            for headers in ({}, bearer(RED), bearer(ALONE))
        ]

    assert [401] * 3 == [reply.status_code for reply in replies]
    assert not any("hit" in reply.text for reply in replies)
