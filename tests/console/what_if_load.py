"""Conversations of the same callers for one gateway after the other, to compare replays with what really happens."""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from openai import AsyncOpenAI


@dataclass(frozen=True)
class Turn:
    pause_s: float
    """Seconds after the answer before."""
    text: str


@dataclass(frozen=True)
class Conversation:
    begins_s: float
    turns: Sequence[Turn]


def conversations(seed: int, *, lasts_s: float, per_s: float) -> list[Conversation]:
    """Return conversations of three to seven turns that begin at random, *per_s* in each second."""
    rng = random.Random(seed)
    found: list[Conversation] = []
    begins_s = rng.expovariate(per_s)
    while begins_s < lasts_s:
        turns = [Turn(0.0, _words(rng, rng.randrange(100, 400)))]
        turns += [Turn(rng.uniform(0.5, 4.0), _words(rng, rng.randrange(20, 80))) for _ in range(rng.randrange(2, 7))]
        found.append(Conversation(begins_s, turns))
        begins_s += rng.expovariate(per_s)
    return found


def _words(rng: random.Random, count: int) -> str:
    return " ".join(f"word{rng.randrange(10**6)}" for _ in range(count))


async def hold(client: AsyncOpenAI, planned: Sequence[Conversation]) -> None:
    """Hold all conversations, and return after the last answer."""
    began = time.monotonic() + 0.2
    await asyncio.gather(*[_hold(client, each, began) for each in planned])


async def _hold(client: AsyncOpenAI, conversation: Conversation, began: float) -> None:
    await asyncio.sleep(max(0.0, began + conversation.begins_s - time.monotonic()))
    messages: list[Any] = []
    for turn in conversation.turns:
        await asyncio.sleep(turn.pause_s)
        messages.append({"role": "user", "content": turn.text})
        stream = await client.chat.completions.create(model="tiny", messages=messages, max_tokens=24, stream=True)
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
        messages.append({"role": "assistant", "content": "".join(pieces)})
