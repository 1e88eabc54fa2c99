"""Lines of batches that give way to other requests, over real sockets."""

import asyncio
from pathlib import Path
from typing import Any

from tests.e2e.batching import a_line, batching, created, ended, read
from tests.e2e.stack import Stack, quick

OWNER = "owner-of-the-tests-6f1c0a9d"
SLOW = quick(speed=1, prefill_tokens_per_s=4000, max_num_batched_tokens=512, blocks=4096)
"""A worker that computes the prompt of each line for about three seconds, in steps of 0.13 s."""
LINES = [a_line(str(n), f"{n} " + "word " * 12_000) for n in range(2)]


async def journal(running: Stack) -> list[dict[str, Any]]:
    return [each for each in await running.served(running.workers[0]) if each["path"].endswith("/completions")]


async def records(running: Stack, count: int) -> list[dict[str, Any]]:
    """The ledger records of all requests, once there are *count*."""
    headers = {"authorization": f"Bearer {OWNER}"}
    async with asyncio.timeout(60):
        while True:
            page = (await running.http.get("/admin/v1/usage/records", headers=headers)).json()
            if len(page["data"]) >= count:
                return list(page["data"])
            await asyncio.sleep(0.05)


async def chat_while_a_line_computes(running: Stack) -> list[dict[str, Any]]:
    """The requests at the worker just after the answer to a chat that was sent while a line was at the worker."""
    async with asyncio.timeout(60):
        while not await journal(running):
            await asyncio.sleep(0.02)
    await running.openai.chat.completions.create(
        model="tiny", max_tokens=2, messages=[{"role": "user", "content": "Hello"}]
    )
    return await journal(running)


async def test_a_line_gives_way_to_a_chat_and_continues(tmp_path: Path) -> None:
    """The chat is answered first. The line finds what was computed of its prompt, and is answered and charged once."""
    admin = {"keys": [{"id": "root", "role": "owner", "secret": OWNER}]}
    async with batching(tmp_path, 1, options=SLOW, admin=admin) as running:
        made = await created(running, LINES)
        seen = await chat_while_a_line_computes(running)
        batch = await ended(running, made.id)
        output = await read(running, batch.output_file_id)
        served = await journal(running)
        charged = await records(running, 3)
        interruptions = await running.metric("warmgate_batch_interruptions_total")
        discarded = await running.metric("warmgate_batch_discarded_runs_total")

    assert ["finished"] == [each["state"] for each in seen if each["prompt_tokens"] < 100]
    assert "aborted" == seen[0]["state"]
    assert {"aborted", "running"} >= {each["state"] for each in seen if each["prompt_tokens"] > 10_000}
    assert ["0", "1"] == [line["custom_id"] for line in output]
    again = [each for each in served if each["prompt_digest"] == seen[0]["prompt_digest"]]
    assert ["aborted", "finished"] == [each["state"] for each in again]
    assert again[1]["cached_tokens"] >= 500
    assert sorted([f"{batch.id}-0", f"{batch.id}-1"]) == sorted(
        each["request_id"] for each in charged if each["request_id"].startswith(batch.id)
    )
    assert 3 == len(charged)
    assert {'{model="tiny"}': sum(each["state"] == "aborted" for each in served)} == interruptions
    assert {0.0} == set(discarded.values())


async def test_without_the_setting_a_chat_waits_for_the_prompt_of_a_line(tmp_path: Path) -> None:
    async with batching(tmp_path, 1, options=SLOW, batches={"model_interrupt_prompts": {"tiny": False}}) as running:
        made = await created(running, LINES[:1])
        seen = await chat_while_a_line_computes(running)
        batch = await ended(running, made.id)

    assert "aborted" not in {each["state"] for each in seen}
    assert "completed" == batch.status
