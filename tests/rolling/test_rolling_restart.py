"""Two gateways behind a real HAProxy, restarted one after the other under load: no client may notice.

`make rolling-test` runs it. Every answer is compared with the one that a worker gave before, without any gateway.
"""

import asyncio
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI, DefaultAsyncHttpxClient, OpenAIError

from tests.e2e.gateway_process import gateway_process
from tests.e2e.stack import program
from tests.rolling.haproxy import NO_RETRIES, RETRIES, HAProxy, haproxy
from tests.storage import free_port

STREAMING, WHOLE = 24, 8
"""Clients at once."""
PROMPTS = [f"Tell me story {number} of the sea." for number in range(40)]
TPOT_MS = 60
MAX_TOKENS = 64
"""With the time between two of them a stream takes up to four seconds: some are cut by every stop, if any are."""
GRACE_S = 30
CHECK_MS = 200
STOP_DELAY_S = 1.0
"""Five checks of HAProxy."""


@dataclass
class Seen:
    right: Counter[str] = field(default_factory=Counter)
    """Answers that were the expected ones, by their kind."""
    wrong: list[str] = field(default_factory=list)


class Replica:
    """A gateway of which there is one life after the other, always on the same port."""

    def __init__(self, name: str, folder: Path, workers: Sequence[str], *, stop_delay_s: float) -> None:
        self.name = name
        self.port = free_port()
        self._folder = folder
        self._settings: dict[str, Any] = {
            "server": {"port": self.port, "stop_delay_s": stop_delay_s, "shutdown_grace_s": GRACE_S},
            "models": [{"name": "tiny", "workers": [{"url": url} for url in workers]}],
            "logging": {"requests": False},
        }
        self._life = AsyncExitStack()

    async def start(self) -> None:
        await self._life.enter_async_context(gateway_process(self._folder, self._settings, name=self.name))

    async def stop(self) -> None:
        await self._life.aclose()


async def expected(worker: str) -> dict[str, str]:
    """The text that answers each prompt, as *worker* itself gives it at its usual speed."""
    async with httpx.AsyncClient(base_url=worker, timeout=60) as client:

        async def of(prompt: str) -> str:
            response = await client.post("/v1/chat/completions", json={**chat(prompt), "stream": False})
            text: str = response.json()["choices"][0]["message"]["content"]
            return text

        return dict(zip(PROMPTS, await asyncio.gather(*map(of, PROMPTS)), strict=True))


def chat(prompt: str) -> dict[str, Any]:
    return {"model": "tiny", "max_tokens": MAX_TOKENS, "messages": [{"role": "user", "content": prompt}]}


async def whole(client: AsyncOpenAI, prompt: str) -> str:
    answer = await client.chat.completions.create(**chat(prompt))
    return answer.choices[0].message.content or ""


async def streamed(client: AsyncOpenAI, prompt: str) -> str:
    """Its text; the SDK raises for an error event, and the finish has to have come."""
    text, finishes = "", []
    async for chunk in await client.chat.completions.create(**chat(prompt), stream=True):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finishes += [choice.finish_reason] if choice.finish_reason else []
    assert 1 == len(finishes), f"it finished {len(finishes)} times"
    return text


async def ask_again_and_again(client: AsyncOpenAI, texts: dict[str, str], seen: Seen, kind: str, rng: Any) -> None:
    while True:
        prompt = rng.choice(PROMPTS)
        try:
            text = await (streamed if kind == "stream" else whole)(client, prompt)
        except (OpenAIError, httpx.HTTPError, AssertionError) as error:
            seen.wrong.append(f"{kind}: {type(error).__name__}: {error}")
        else:
            if text == texts[prompt]:
                seen.right[kind] += 1
            else:
                seen.wrong.append(f"{kind}: {text!r} instead of {texts[prompt]!r}")


@asynccontextmanager
async def load(front: HAProxy, texts: dict[str, str], seen: Seen) -> AsyncIterator[None]:
    """Clients that never retry, each with its own connection to HAProxy, which it keeps."""
    async with AsyncExitStack() as exits:
        clients = [
            await exits.enter_async_context(
                AsyncOpenAI(
                    base_url=f"{front.url}/v1",
                    api_key="k",
                    max_retries=0,
                    http_client=DefaultAsyncHttpxClient(verify=False),
                )
            )
            for _ in range(STREAMING + WHOLE)
        ]
        tasks = await exits.enter_async_context(asyncio.TaskGroup())
        asking = [
            tasks.create_task(
                ask_again_and_again(client, texts, seen, "stream" if i < STREAMING else "whole", random.Random(i))
            )
            for i, client in enumerate(clients)
        ]
        yield
        for each in asking:
            each.cancel()


@pytest.mark.parametrize(
    ("stop_delay_s", "retrying", "rounds"),
    [
        pytest.param(STOP_DELAY_S, NO_RETRIES, 3, id="announced, and HAProxy retries nothing"),
        pytest.param(0.0, RETRIES, 2, id="at once, and HAProxy retries what got no answer"),
    ],
)
async def test_no_one_notices_a_rolling_restart(
    tmp_path: Path, stop_delay_s: float, retrying: Sequence[str], rounds: int
) -> None:
    """No failed request, no stream that is not complete, no other text."""
    simulate = ("simulate", "--port", "0", "--tpot-ms", str(TPOT_MS))
    seen = Seen()
    async with program(*simulate) as (_, first), program(*simulate) as (_, second), AsyncExitStack() as exits:
        texts = await expected(first)
        replicas = [Replica(name, tmp_path, (first, second), stop_delay_s=stop_delay_s) for name in "ab"]
        for replica in replicas:
            await replica.start()
            exits.push_async_callback(replica.stop)
        ports = {replica.name: replica.port for replica in replicas}
        front = await exits.enter_async_context(haproxy(ports, retrying=retrying, check_ms=CHECK_MS))
        for replica in replicas:
            await front.until(replica.name, is_up=True)
        async with load(front, texts, seen):
            for _ in range(rounds):
                for replica in replicas:
                    await restart(replica, front, seen)
        counted = [await front.statistics(replica.name) for replica in replicas]

    retries, redispatches = (sum(int(each[name]) for each in counted) for name in ("wretr", "wredis"))
    sys.stdout.write(
        f"\n{2 * rounds} restarts, stop_delay_s {stop_delay_s:g}: {seen.right['stream']} streams and "
        f"{seen.right['whole']} whole answers right, {len(seen.wrong)} wrong; "
        f"HAProxy retried {retries} and sent {redispatches} elsewhere\n"
    )
    assert [] == seen.wrong
    assert seen.right["stream"] > 2 * rounds * STREAMING
    assert seen.right["whole"] > 2 * rounds * WHOLE


async def restart(replica: Replica, front: HAProxy, seen: Seen) -> None:
    """Stop *replica* and start it again, and let the other one have rest when each client was answered once more."""
    await replica.stop()
    await replica.start()
    await front.until(replica.name, is_up=True)
    before = seen.right.total()
    async with asyncio.timeout(60):
        while not seen.wrong and seen.right.total() < before + STREAMING + WHOLE:
            await asyncio.sleep(0.02)
