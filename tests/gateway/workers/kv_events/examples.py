"""Payloads and waiting, for tests of streams and sockets."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

WAIT_S = 10.0


def stored(*hashes: int | bytes, parent: int | bytes | None = None, **fields: Any) -> dict[str, Any]:
    """Blocks of two tokens, as vLLM reports them; the first token reports which block it is."""
    tokens = [token for block in hashes for token in (len(block) if isinstance(block, bytes) else abs(block) % 1000, 7)]
    event = {"block_hashes": list(hashes), "parent_block_hash": parent, "token_ids": tokens, "block_size": 2}
    return {"type": "BlockStored", **event, "lora_id": None, "medium": "GPU", "lora_name": None, **fields}


def removed(*hashes: int | bytes, medium: str | None = "GPU", **fields: Any) -> dict[str, Any]:
    return {"type": "BlockRemoved", "block_hashes": list(hashes), "medium": medium, **fields}


def cleared() -> dict[str, Any]:
    return {"type": "AllBlocksCleared"}


def batch(*events: Any, ts: float = 1000.0, rank: int = 0) -> bytes:
    return msgspec.msgpack.encode([ts, events, rank])


async def until(condition: Callable[[], object]) -> None:
    """Until it holds; other tasks run meanwhile."""
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.005)
