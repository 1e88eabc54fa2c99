"""Where requests go."""

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest

from gateway.protocol.headers import SESSION_HEADERS, SESSION_TOKEN_HEADER
from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.e2e.stack import Stack, gateway, quick, stack


async def workers_of(served: Stack, prompts: list[str], *, headers: dict[str, str] | None = None) -> list[str]:
    chosen = []
    for prompt in prompts:
        reply = await served.http.post("/v1/chat/completions", json=_body(prompt), headers=headers)
        chosen.append(reply.headers["x-warmgate-worker"])
    return chosen


async def test_a_hot_prefix_uses_all_workers_of_an_idle_fleet() -> None:
    """30 identical requests at once, 3,000 tokens in and 64 out: no one herds them onto one worker."""
    prompt = "All of it is shared. " * 572  # 12,012 bytes: 3,003 tokens of the simulated worker
    async with stack(3, options=SimulatorOptions(port=0, prefill_tokens_per_s=10_000)) as served:
        for worker in served.workers:  # no answer comes before the last question has
            await served.fault(worker, "slow", factor=1000)
        async with asyncio.TaskGroup() as tasks:
            asking = [
                tasks.create_task(
                    served.http.post("/v1/chat/completions", json=_body(prompt, max_tokens=64, ignore_eos=True))
                )
                for _ in range(30)
            ]
            async with asyncio.timeout(60):
                while sum((await served.metric("warmgate_requests_in_flight")).values()) < 30:
                    await asyncio.sleep(0.01)
            for worker in served.workers:
                await served.fault(worker, "none")
        replies = [task.result() for task in asking]

        assert {200} == {reply.status_code for reply in replies}
        spread = Counter(reply.headers["x-warmgate-worker"] for reply in replies)
        assert set(served.workers) == set(spread)
        assert max(spread.values()) <= 20


async def test_round_robin_takes_turns() -> None:
    """Each worker as often as the others."""
    async with stack(3, model={"strategy": "round_robin"}) as served:
        chosen = await workers_of(served, ["same prompt " * 40] * 9)

        assert {3} == set(Counter(chosen).values())


async def test_least_loaded_avoids_the_busy_worker() -> None:
    """While one worker generates a long answer, short requests go to the other."""
    async with stack(2, options=SimulatorOptions(port=0, tpot_ms=20), model={"strategy": "least_loaded"}) as served:
        long_answer = asyncio.ensure_future(
            served.http.post("/v1/chat/completions", json=_body("go", max_tokens=5000, ignore_eos=True))
        )
        async with asyncio.timeout(60):
            while not (busy := [worker for worker in served.workers if await served.served(worker)]):
                await asyncio.sleep(0.01)
        chosen = set(await workers_of(served, ["a", "b", "c"]))
        long_answer.cancel()
        await asyncio.wait([long_answer])

        assert long_answer.cancelled()
        assert 1 == len(chosen)
        assert chosen.isdisjoint(busy)


async def test_a_session_stays_with_its_worker() -> None:
    async with stack(3, model={"strategy": "session"}) as served:
        chosen = {
            session: set(await workers_of(served, ["x" * 100, "y" * 100], headers={"x-session-id": session}))
            for session in map(str, range(40))
        }

        assert {1} == {len(workers) for workers in chosen.values()}
        assert set(served.workers) == set().union(*chosen.values())


@pytest.mark.parametrize("header", [*SESSION_HEADERS, SESSION_TOKEN_HEADER])
async def test_a_session_in_the_header_of_an_agent_stays_with_its_worker(header: bytes) -> None:
    """Without configuration. The worker gets the session in the one header that vLLM reads."""
    async with stack(3, model={"strategy": "session"}) as served:
        chosen = {
            session: set(await workers_of(served, ["x" * 100, "y" * 100], headers={header.decode(): session}))
            for session in map(str, range(12))
        }
        seen = [dict(each["headers"]) for worker in served.workers for each in await served.served(worker)]

    assert {1} == {len(workers) for workers in chosen.values()}
    assert 1 < len(set().union(*chosen.values()))
    assert 12 == len({headers["x-session-id"] for headers in seen})
    assert {header.decode()} & set(seen[0]) <= {"x-session-id"}


async def test_a_session_in_the_body_stays_with_its_worker() -> None:
    """The field of vLLM; the worker gets the session as a header."""
    async with stack(3, model={"strategy": "session"}) as served:
        replies = [
            await served.http.post("/v1/chat/completions", json=_body(prompt, session_id=session, user="u"))
            for session in map(str, range(12))
            for prompt in ("x", "y")
        ]
        seen = [dict(each["headers"]) for worker in served.workers for each in await served.served(worker)]
        counted = await served.metric("warmgate_requests_by_session_total")
    workers = [reply.headers["x-warmgate-worker"] for reply in replies]

    assert workers[::2] == workers[1::2]
    assert 1 < len(set(workers))
    assert set(map(str, range(12))) == {headers["x-session-id"] for headers in seen}
    assert [24.0, 0.0, 0.0] == list(counted.values())


async def test_sessions_of_teams_with_the_same_name_are_kept_apart() -> None:
    """A worker sees another id for each team, and no team can send the id of another team."""
    teams = [{"name": name, "keys": [{"id": name, "secret": f"sk-{name}"}]} for name in ("blue", "green")]
    async with stack(1, model={"strategy": "session"}, teams=teams) as served:
        for team in ("blue", "green", "blue"):
            headers = {"authorization": f"Bearer sk-{team}", "session-id": "s-1"}
            await workers_of(served, ["x"], headers=headers)
        blue = [dict(each["headers"])["x-session-id"] for each in await served.served(served.workers[0])]
        await workers_of(served, ["x"], headers={"authorization": "Bearer sk-green", "x-session-id": blue[0]})
        forged = dict((await served.served(served.workers[0]))[-1]["headers"])["x-session-id"]

    assert blue[0] == blue[2] != blue[1]
    assert forged not in blue


async def test_a_cache_salt_keeps_prefixes_apart() -> None:
    prompt = "One long and shared prompt. " * 40
    async with stack(1) as served:
        hits = []
        for salt in ("a", "b", "a"):
            reply = await served.http.post("/v1/chat/completions", json=_body(prompt, cache_salt=salt))
            hits.append(int(reply.headers["x-warmgate-hit-blocks"]))

        assert [0, 0] == hits[:2]
        assert hits[2] > 10


async def test_a_restarted_worker_is_known_to_be_cold(caplog: pytest.LogCaptureFixture) -> None:
    """Same address, new process: nothing is credited to it until it has served something."""
    caplog.set_level(logging.INFO, "gateway.workers.health_checker")
    prompt = "One long and shared prompt. " * 40
    async with serving(quick()) as url:
        port = int(url.rsplit(":", 1)[1])
    async with gateway([f"http://127.0.0.1:{port}"]) as served:
        hits = []
        for known in ("is up", "has restarted: its cache is empty"):
            async with serving(quick(port=port)):
                async with asyncio.timeout(60):
                    while not any(message.endswith(known) for message in caplog.messages):
                        await asyncio.sleep(0.05)
                for _ in range(2):
                    reply = await served.http.post("/v1/chat/completions", json=_body(prompt))
                    hits.append(int(reply.headers["x-warmgate-hit-blocks"]) > 0)

        assert [False, True, False, True] == hits


async def test_a_cache_that_was_cleared_does_not_scale_predictions_down() -> None:
    """No one says so: the next prompts show it. No more is predicted than the prompt has, nor less than there is."""
    prompt = "One long and shared prompt, of which there is a lot. " * 400
    async with stack(1) as served:
        predicted, reported, tokens = [], [], []
        for round_ in range(6):
            if round_ == 3:
                await served.http.post(f"{served.workers[0]}/control/reset")
            reply = await served.http.post("/v1/chat/completions", json=_body(prompt))
            usage = reply.json()["usage"]
            predicted.append(int(reply.headers["x-warmgate-hit-tokens"]))
            reported.append((usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0)
            tokens.append(usage["prompt_tokens"])

    assert [True, False, False, True, False, False] == [cached == 0 for cached in reported]
    assert all(hit <= size for hit, size in zip(predicted, tokens, strict=True))
    assert all(hit >= 0.9 * cached for hit, cached in zip(predicted, reported, strict=True))


def _body(prompt: str, **more: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": [{"role": "user", "content": prompt}], "max_tokens": 4, **more}
