"""A gateway with batches over real sockets, and lines for them."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from openai.types import Batch

from tests.e2e.stack import HELD_KEY, Stack, stack

CHAT = "/v1/chat/completions"
ENDED = {"failed", "completed", "expired", "cancelled"}


@asynccontextmanager
async def batching(folder: Path, workers: int = 2, **groups: Any) -> AsyncIterator[Stack]:
    """The client of OpenAI has the key ``ci`` of the team blue."""
    usual: dict[str, Any] = {
        "teams": [{"name": "blue", "keys": [{"id": "ci", "secret": HELD_KEY}]}],
        "store": {"url": f"sqlite:///{folder / 'db'}"},
        "files": {"folder": str(folder / "files")},
    }
    async with stack(workers, **{**usual, **groups}) as running:
        yield running


def a_line(custom_id: str, prompt: str = "Hello", *, url: str = CHAT, **fields: Any) -> dict[str, Any]:
    body = {"model": "tiny", "max_tokens": 3, "messages": [{"role": "user", "content": prompt}], **fields}
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body}


async def created(running: Stack, lines: Sequence[Any], *, endpoint: Any = CHAT, **more: Any) -> Batch:
    content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    file = await running.openai.files.create(file=("lines.jsonl", content), purpose="batch")
    return await running.openai.batches.create(
        input_file_id=file.id, endpoint=endpoint, completion_window="24h", **more
    )


async def ended(running: Stack, batch_id: str) -> Batch:
    async with asyncio.timeout(60):
        while (batch := await running.openai.batches.retrieve(batch_id)).status not in ENDED:
            await asyncio.sleep(0.1)
    return batch


async def read(running: Stack, file_id: str | None) -> list[dict[str, Any]]:
    if file_id is None:
        return []
    content = (await running.openai.files.content(file_id)).content
    return [json.loads(line) for line in content.splitlines()]
