"""Conversations find the same cached prefixes through Envoy and the picker as through the proxy."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.picker.rig import rig

TALKS = 6
TURNS = 5
OPTIONS: Mapping[str, Any] = {"blocks": 400, "block_size": 16}


def body(talk: int, turn: int) -> dict[str, Any]:
    """Return turn *turn* of conversation *talk*. All conversations have the same system prompt."""
    said = [f"conversation {talk}, turn {number}: " + f"words {talk} {number} " * 60 for number in range(turn + 1)]
    messages = [
        {"role": "user" if number % 2 == 0 else "assistant", "content": text} for number, text in enumerate(said)
    ]
    system = {"role": "system", "content": "The same instructions for everybody. " * 40}
    return {"model": "tiny", "max_tokens": 2, "messages": [system, *messages]}


async def cached_tokens(folder: Path, *, through_envoy: bool) -> int:
    """Return the prompt tokens of all conversations that came out of caches, in front of new workers."""
    async with rig(folder, 3, options=OPTIONS, model={"strategy": "prefix_aware"}) as there:
        client: httpx.AsyncClient = there.http if through_envoy else there.picker.http
        cached = 0
        for turn in range(TURNS):
            for talk in range(TALKS):
                answer = await client.post("/v1/chat/completions", json=body(talk, turn))
                assert 200 == answer.status_code, answer.text
                cached += answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
        return cached


async def test_conversations_hit_as_much_through_envoy_as_through_the_proxy(tmp_path: Path) -> None:
    """Within 5 %. Requests come one after another, so time decides nothing but ties."""
    proxy = await cached_tokens(tmp_path, through_envoy=False)
    picker = await cached_tokens(tmp_path, through_envoy=True)

    assert 0 < proxy
    assert 0.95 <= picker / proxy <= 1.05
