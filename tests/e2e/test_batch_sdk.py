"""The flow of batches with the unmodified client of OpenAI, whose types check every answer.

The client accepts only answers that its types describe: it validates them strictly, as it does not by default.
"""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from openai.types import Batch

from tests.e2e.batching import ENDED, a_line, batching
from tests.e2e.stack import HELD_KEY, quick


@asynccontextmanager
async def strict(folder: Path, **groups: Any) -> AsyncIterator[AsyncOpenAI]:
    """A client before a gateway with one worker and the files in *folder*."""
    async with (
        batching(folder, 1, **groups) as stack,
        AsyncOpenAI(
            base_url=f"{stack.url}/v1", api_key=HELD_KEY, max_retries=0, _strict_response_validation=True
        ) as client,
    ):
        yield client


async def submitted(client: AsyncOpenAI, lines: list[dict[str, Any]], **more: Any) -> Batch:
    content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    file = await client.files.create(file=("lines.jsonl", content), purpose="batch")
    return await client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", **more
    )


async def running(client: AsyncOpenAI, batch_id: str) -> None:
    """Wait until the batch is validated."""
    async with asyncio.timeout(60):
        while (await client.batches.retrieve(batch_id)).status == "validating":
            await asyncio.sleep(0.02)


async def polled(client: AsyncOpenAI, batch_id: str) -> Batch:
    """The batch at its end."""
    async with asyncio.timeout(60):
        while (batch := await client.batches.retrieve(batch_id)).status not in ENDED:
            await asyncio.sleep(0.02)
    return batch


async def downloaded(client: AsyncOpenAI, file_id: str | None) -> list[dict[str, Any]]:
    assert file_id is not None
    return [json.loads(line) for line in (await client.files.content(file_id)).text.splitlines()]


async def test_create_poll_download_list_and_delete(tmp_path: Path) -> None:
    """All fields of files and batches have the types of OpenAI's client, from the first to the last state."""
    async with strict(tmp_path) as client:
        made = await submitted(
            client,
            [a_line(str(n)) for n in range(20)],
            metadata={"job": "nightly"},
            output_expires_after={"anchor": "created_at", "seconds": 3600},
        )
        batch = await polled(client, made.id)
        lines = await downloaded(client, batch.output_file_id)
        assert batch.output_file_id is not None
        output = await client.files.retrieve(batch.output_file_id)
        files = [file.id async for file in client.files.list(limit=1, order="asc")]
        outputs = [file.id async for file in client.files.list(purpose="batch_output")]
        batches = [each.id async for each in client.batches.list(limit=1)]
        deleted = await client.files.delete(output.id)
        left = [file.id async for file in client.files.list()]

    assert ("batch", "validating", "completed") == (batch.object, made.status, batch.status)
    assert [str(n) for n in range(20)] == [line["custom_id"] for line in lines]
    assert ("file", "batch_output") == (output.object, output.purpose)
    assert output.expires_at is not None
    assert 3600 >= output.expires_at - output.created_at > 0
    assert [batch.input_file_id, output.id] == files
    assert ([output.id], [made.id]) == (outputs, batches)
    assert (output.id, True) == (deleted.id, deleted.deleted)
    assert [batch.input_file_id] == left


async def test_a_failed_batch(tmp_path: Path) -> None:
    """Its errors have the types of OpenAI's client as well."""
    async with strict(tmp_path) as client:
        batch = await polled(client, (await submitted(client, [a_line("1", url="/v1/completions")])).id)

    assert ("failed", "list") == (batch.status, batch.errors and batch.errors.object)
    assert batch.failed_at is not None


async def test_a_batch_above_the_limit_of_enqueued_tokens(tmp_path: Path) -> None:
    """It fails as at OpenAI. As soon as earlier batches have ended, there is room again."""
    async with strict(tmp_path, options=quick(speed=1), batches={"max_enqueued_tokens": 2000}) as client:
        first = await submitted(client, [a_line(str(n), "x" * 1000, max_tokens=50) for n in range(5)])
        await running(client, first.id)
        refused = await polled(client, (await submitted(client, [a_line("1", "x" * 4000)])).id)
        await client.batches.cancel(first.id)
        await polled(client, first.id)
        later = await polled(client, (await submitted(client, [a_line("1", "x" * 4000)])).id)

    assert "failed" == refused.status
    assert refused.errors is not None
    assert refused.errors.data is not None
    (error,) = refused.errors.data
    assert "token_limit_exceeded" == error.code
    assert (
        "Enqueued token limit reached for tiny in team blue. Limit: 2,000 enqueued tokens. Please try again once some "
        "in_progress batches have been completed." == error.message
    )
    assert "completed" == later.status


async def test_cancel(tmp_path: Path) -> None:
    """Lines that ran stay in the output file; the others have an error."""
    async with strict(tmp_path, options=quick(speed=1)) as client:
        made = await submitted(client, [a_line(str(n), max_tokens=50) for n in range(200)])
        await running(client, made.id)
        cancelling = await client.batches.cancel(made.id)
        batch = await polled(client, made.id)
        errors = await downloaded(client, batch.error_file_id)

    assert cancelling.status in {"cancelling", "cancelled"}
    assert ("cancelled", "batch_cancelled") == (batch.status, errors[0]["error"]["code"])
    assert None not in {batch.cancelling_at, batch.cancelled_at}


async def test_expire(tmp_path: Path) -> None:
    """The time of a batch is over while its gateway is down. The lines that did not run have an error."""
    slow = quick(speed=1)
    async with strict(tmp_path, options=slow) as client:
        made = await submitted(client, [a_line(str(n), max_tokens=50) for n in range(200)])
        await running(client, made.id)
    _move_to_the_past(tmp_path / "db", made.id)
    async with strict(tmp_path, options=slow, batches={"lease_s": 1}) as client:
        batch = await polled(client, made.id)
        errors = await downloaded(client, batch.error_file_id)

    assert ("expired", "batch_expired") == (batch.status, errors[0]["error"]["code"])
    assert batch.expired_at is not None
    assert batch.request_counts is not None
    assert 200 == batch.request_counts.total


def _move_to_the_past(store: Path, batch_id: str) -> None:
    """Let the batch begin and end a day earlier."""
    connection = sqlite3.connect(store)
    with connection:
        (row,) = connection.execute("SELECT row FROM batch_records WHERE id = ?", (batch_id,)).fetchone()
        info = json.loads(row)
        info["created_at"] -= 86_400
        info["expires_at"] -= 86_400
        changed = (json.dumps(info).encode(), batch_id)
        connection.execute("UPDATE batch_records SET row = ?, due_at = 0, version = version + 1 WHERE id = ?", changed)
    connection.close()
