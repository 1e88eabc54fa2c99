"""Three gateway processes, one Redis, 200 streaming clients on one key of 50,000 tokens per minute.

Half of the clients send requests of one end user, who has 6,000 tokens per minute; the others are ten end users.

`make acceptance` runs it; `ACCEPTANCE_S` is the length of each of the two runs, 180 seconds by default. What counts is
what clients see, the ledger, and what Redis still holds at the end.
"""

import asyncio
import os
import random
import secrets
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from benchmarks.processes import Child, Processes, free_port, start_gateway
from gateway.storage.redis_link import redis_link
from gateway.tenancy.ledger.record import UsageRecord
from gateway.tenancy.ledger.redis_usage import RedisUsage
from gateway.tenancy.ledger.usage_store import Period, RecordQuery, SumQuery
from tests.storage import RedisServer, RedisServers

pytestmark = pytest.mark.redis

LENGTH_S = float(os.environ.get("ACCEPTANCE_S", "180"))
CLIENTS = 200
GATEWAYS = 3
TOKENS_PER_MINUTE = 50_000
BURST = TOKENS_PER_MINUTE / 10
USER_TOKENS_PER_MINUTE = 6_000
"""Limit of each end user, which the requests of `GREEDY` exceed and those of the others do not."""
USER_BURST = USER_TOKENS_PER_MINUTE / 10
GREEDY = "user-0"
TOLERANCE = 0.02 * (BURST + TOKENS_PER_MINUTE / 60 * 180)
"""Two per cent of what three minutes give, in tokens; the same for shorter runs, whose ends weigh more."""
LEASE_S = 30.0
STUCK_S = 60.0
KEY = "wg-acceptance-" + secrets.token_urlsafe(32)


@dataclass
class Gateway:
    child: Child
    url: str
    is_dead: bool = False


@dataclass
class Seen:
    completed: dict[str, int] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    """Requests that ended in the middle, or without an answer: the outcome of them is for the ledger to say."""
    statuses: Counter[int] = field(default_factory=Counter)
    waits_s: list[float] = field(default_factory=list)
    """Requests that were answered with a 429."""


class Field:
    def __init__(self, processes: Processes, redis: RedisServer) -> None:
        self.redis = redis
        self.workers = [self._worker(processes, number) for number in range(2)]
        self.gateways = [self._gateway(processes, number) for number in range(GATEWAYS)]

    def _worker(self, processes: Processes, number: int) -> str:
        command = (sys.executable, "-m", "gateway", "simulate", "--port", "0", "--model", "tiny", "--tpot-ms", "40")
        return processes.start(f"worker-{number}", command).wait_for_ready_line()

    def _gateway(self, processes: Processes, number: int) -> Gateway:
        settings: dict[str, Any] = {
            "server": {"port": free_port()},
            "logging": {"requests": False},
            "models": [{"name": "tiny", "workers": [{"url": url} for url in self.workers]}],
            "teams": [
                {
                    "name": "blue",
                    "limits": {"max_concurrent_requests": 10 * CLIENTS, "tokens_per_day": 10**9},
                    "user_limits": {"tokens_per_minute": USER_TOKENS_PER_MINUTE, "tokens_per_day": 10**8},
                    "keys": [
                        {"id": "ci", "secret_env": "BLUE_KEY", "limits": {"tokens_per_minute": TOKENS_PER_MINUTE}}
                    ],
                }
            ],
            # Closed without the store: so its limits are those of the whole run, outages included.
            "store": {
                "url": self.redis.url,
                "replicas": GATEWAYS,
                "on_unavailable_requests": "fail_closed",
                "on_unavailable_tokens": "fail_closed",
                "on_unavailable_concurrent": "fail_closed",
                "lease_s": LEASE_S,
                "timeout_s": 10,  # the machine may be busy
            },
            "quota": {"cached_weight": 1.0},  # tokens of the limit are tokens of the ledger
        }
        child, url = start_gateway(processes, settings, environment={"BLUE_KEY": KEY}, name=f"gateway-{number}")
        return Gateway(child, url)

    def held(self) -> int:
        with self.redis.client() as client:
            return int(client.hlen("warmgate:{blue}:quota:held"))

    async def records(self) -> list[UsageRecord]:
        link = redis_link(self.redis.url, timeout_s=60)
        usage = RedisUsage(link)
        page = await usage.records(RecordQuery(period=days()), most=1000)
        records = list(page.items)
        while page.next is not None:
            page = await usage.records(RecordQuery(period=days()), cursor=page.next, most=1000)
            records += page.items
        (sums,) = await usage.sums(SumQuery(period=days()))
        await link.aclose()
        assert sums.requests == len(records)
        assert sums.prompt_tokens + sums.completion_tokens == tokens_of(records)
        return records


def days() -> Period:
    today = datetime.now(UTC).date()
    return Period(str(today - timedelta(days=1)), str(today))


def tokens_of(records: list[UsageRecord]) -> int:
    return sum(record.prompt_tokens + record.completion_tokens for record in records)


@pytest.fixture
def stage(redis_servers: RedisServers) -> Iterator[Field]:
    """With a Redis that writes to disk as most do."""
    with Processes() as processes:
        yield Field(processes, redis_servers.started(fsync="everysec"))


async def demand(stage: Field, seen: Seen, *, length_s: float) -> None:
    """200 clients ask again as soon as they may, through whichever gateway, until it is over; then they finish."""
    until = time.monotonic() + length_s
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=CLIENTS)
    async with (
        httpx.AsyncClient(limits=limits, timeout=30.0, headers={"authorization": f"Bearer {KEY}"}) as http,
        asyncio.TaskGroup() as clients,
    ):
        for number in range(CLIENTS):
            user = GREEDY if number % 2 else f"user-{1 + number // 2 % 10}"
            clients.create_task(ask_again_and_again(http, stage, seen, random.Random(number), until, user))


async def ask_again_and_again(
    http: httpx.AsyncClient, stage: Field, seen: Seen, rng: random.Random, until: float, user: str
) -> None:
    while time.monotonic() < until:
        gateway = rng.choice([each for each in stage.gateways if not each.is_dead])
        request_id = f"{rng.getrandbits(64):016x}"
        try:
            wait_s = await ask(http, gateway, seen, rng, request_id, user)
        except httpx.HTTPError:
            seen.cut.add(request_id)
            wait_s = 0.5
        # As SDKs do: not before, and some later, so that not all come at once.
        await asyncio.sleep(min(wait_s + rng.random() * 2.0, max(0.0, until - time.monotonic())))


async def ask(
    http: httpx.AsyncClient, gateway: Gateway, seen: Seen, rng: random.Random, request_id: str, user: str
) -> float:
    words = " ".join(f"{rng.getrandbits(32):08x}" for _ in range(rng.randrange(2, 30)))
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": words}],
        "max_tokens": rng.randrange(20, 120),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    headers = {"x-request-id": request_id, "x-end-user": user}
    async with http.stream("POST", f"{gateway.url}/v1/chat/completions", json=body, headers=headers) as response:
        seen.statuses[response.status_code] += 1
        text = (await response.aread()).decode()
        if response.status_code != 200:
            wait_s = float(response.headers.get("retry-after-ms", 1000.0)) / 1000.0
            if response.status_code == 429:
                seen.waits_s.append(wait_s)
            return wait_s
    if "data: [DONE]" not in text:
        seen.cut.add(request_id)
        return 0.0
    _, _, usage = text.rpartition('"total_tokens":')
    seen.completed[request_id] = int(usage.lstrip().split(",")[0].split("}")[0])
    return 0.0


def check_users(records: list[UsageRecord], lasted_s: float) -> None:
    """Each end user had at most its limit, and the greedy one was kept from more by it alone."""
    of_users = defaultdict(list)
    for record in records:
        of_users[record.user].append(record)
    used = {user: tokens_of(found) for user, found in of_users.items()}
    most = USER_BURST + USER_TOKENS_PER_MINUTE / 60 * lasted_s
    sys.stdout.write(f"end users: at most {most:.0f} tokens each, used {used}\n")

    assert 11 == len(used)
    assert max(used.values()) <= most
    assert used[GREEDY] == max(used.values())


async def nothing_is_held(stage: Field) -> None:
    async with asyncio.timeout(STUCK_S):
        while stage.held():
            await asyncio.sleep(0.1)


def reported(run: str, seen: Seen, used: int, granted: float, records: list[UsageRecord]) -> None:
    outcomes = dict(Counter(record.outcome for record in records))
    sys.stdout.write(
        f"\n{run}: {used} tokens used of {granted:.0f} ({100 * used / granted - 100:+.2f} %), ledger {outcomes}, "
        f"answers {dict(seen.statuses)}, cut {len(seen.cut)}, longest wait told {max(seen.waits_s):.1f} s\n"
    )


@pytest.mark.timeout(LENGTH_S + 300)
async def test_what_is_used_is_burst_and_rate_times_time(stage: Field) -> None:
    """Within two per cent, and never more; every answer is in the ledger once, with the tokens that its client saw."""
    seen = Seen()
    begun = time.monotonic()
    await demand(stage, seen, length_s=LENGTH_S)
    lasted_s = time.monotonic() - begun
    await nothing_is_held(stage)
    records = await stage.records()
    used, granted = tokens_of(records), BURST + TOKENS_PER_MINUTE / 60 * LENGTH_S
    reported("steady", seen, used, granted, records)
    check_users(records, lasted_s)

    assert {200, 429} == set(seen.statuses)
    assert {record.request_id: record.prompt_tokens + record.completion_tokens for record in records} == seen.completed
    assert len(records) == len(seen.completed)
    assert granted - TOLERANCE <= used <= BURST + TOKENS_PER_MINUTE / 60 * lasted_s


@pytest.mark.timeout(LENGTH_S + 300)
async def test_kills_in_the_middle_change_nothing_of_that(stage: Field) -> None:
    seen = Seen()
    begun = time.monotonic()
    async with asyncio.TaskGroup() as run:
        run.create_task(demand(stage, seen, length_s=LENGTH_S))
        await asyncio.sleep(LENGTH_S / 3)
        dead = stage.gateways[0]
        dead.is_dead = True
        os.kill(dead.child.process.pid, signal.SIGKILL)
        await asyncio.sleep(LENGTH_S / 3)
        await asyncio.to_thread(stage.redis.kill)
        await asyncio.sleep(1.0)
        await asyncio.to_thread(stage.redis.start)
    lasted_s = time.monotonic() - begun
    await nothing_is_held(stage)
    records = await stage.records()
    lost = [record for record in records if record.outcome == "lost"]
    used, granted = tokens_of(records), BURST + TOKENS_PER_MINUTE / 60 * LENGTH_S
    reported("kills", seen, used, granted, records)
    check_users(records, lasted_s)

    by_id = {record.request_id: record for record in records}
    assert len(by_id) == len(records)
    # Its client may have seen the end of an answer that the dead gateway did not live to settle.
    unsettled = {record.request_id for record in lost}
    assert set(seen.completed) <= set(by_id)
    assert set(by_id) <= set(seen.completed) | seen.cut
    assert {} == {
        request_id: tokens
        for request_id, tokens in seen.completed.items()
        if request_id not in unsettled and tokens_of([by_id[request_id]]) != tokens
    }
    assert 1 <= len(lost) <= CLIENTS
    assert granted - TOLERANCE <= used <= BURST + TOKENS_PER_MINUTE / 60 * lasted_s

    await asyncio.sleep(BURST / TOKENS_PER_MINUTE * 60.0)
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {KEY}"}) as http:
        body = {"model": "tiny", "messages": [{"role": "user", "content": "a"}], "max_tokens": 1}
        response = await http.post(f"{stage.gateways[1].url}/v1/chat/completions", json=body)
        usage = await http.get(f"{stage.gateways[1].url}/v1/usage")
    left = {limit["scope"]: limit for limit in usage.json()["limits"] if limit["measure"] == "tokens_per_minute"}
    assert response.status_code == 200
    assert BURST - 200 <= left["key"]["remaining"] <= BURST
    # The header is about the limit that is used up first: that of requests that name no end user.
    assert USER_BURST - 200 <= int(response.headers["x-ratelimit-remaining-tokens"]) <= USER_BURST
