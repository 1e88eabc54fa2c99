"""Batches over real sockets, with the client of OpenAI as it is."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from openai import BadRequestError, ConflictError, NotFoundError

from tests.e2e.batching import a_line, batching, created, ended, read
from tests.e2e.stack import quick


async def test_the_client_of_openai_runs_a_batch_here(tmp_path: Path) -> None:
    """Every line is answered once, in the order of the file, with counts and usage."""
    lines = [a_line(str(n), f"{'shared ' * 200}{n}") for n in range(50)]
    async with batching(tmp_path) as running:
        made = await created(running, lines, metadata={"job": "nightly"})
        batch = await ended(running, made.id)
        output = await read(running, batch.output_file_id)
        listed = [each.id async for each in await running.openai.batches.list(limit=1)]
        names = {path.name for path in (tmp_path / "files").iterdir()}

    assert ("validating", "24h", {"job": "nightly"}) == (made.status, made.completion_window, made.metadata)
    assert ("completed", None, None) == (batch.status, batch.error_file_id, batch.errors)
    assert batch.request_counts is not None
    assert (50, 50, 0) == (batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed)
    assert None not in {batch.in_progress_at, batch.finalizing_at, batch.completed_at}
    assert made.created_at + 86_400 == batch.expires_at
    assert [str(n) for n in range(50)] == [line["custom_id"] for line in output]
    assert {(200, "chat.completion", None)} == {
        (line["response"]["status_code"], line["response"]["body"]["object"], line["error"]) for line in output
    }
    usage = [line["response"]["body"]["usage"] for line in output]
    assert batch.usage is not None
    assert sum(each["prompt_tokens"] for each in usage) == batch.usage.input_tokens
    assert sum(each["completion_tokens"] for each in usage) == batch.usage.output_tokens == 150
    cached = sum(each["prompt_tokens_details"]["cached_tokens"] for each in usage)
    assert cached == batch.usage.input_tokens_details.cached_tokens > 0
    assert [made.id] == listed
    assert {batch.input_file_id, batch.output_file_id} == names


async def test_faults_of_lines_are_named(tmp_path: Path) -> None:
    lines = [a_line("1"), a_line("2", url="/v1/completions"), a_line("1"), a_line("4", temperature="hot", stream=True)]
    async with batching(tmp_path, 1) as running:
        batch = await ended(running, (await created(running, lines)).id)

    assert "failed" == batch.status
    assert batch.errors is not None
    assert batch.errors.data is not None
    assert [
        ("mismatched_endpoint", "url", 2),
        ("duplicate_custom_id", "custom_id", 3),
        ("invalid_request", "body.stream", 4),
    ] == [(fault.code, fault.param, fault.line) for fault in batch.errors.data]


async def test_a_model_that_is_not_served_is_a_fault(tmp_path: Path) -> None:
    async with batching(tmp_path, 1) as running:
        batch = await ended(running, (await created(running, [a_line("1"), a_line("2", model="huge")])).id)

    assert batch.errors is not None
    assert batch.errors.data is not None
    assert [("model_not_found", "body.model", 2)] == [(each.code, each.param, each.line) for each in batch.errors.data]


async def test_lines_that_are_refused_are_in_the_error_file(tmp_path: Path) -> None:
    lines = [a_line("good"), a_line("bad", "x", max_tokens=10**9)]
    async with batching(tmp_path, 1) as running:
        batch = await ended(running, (await created(running, lines)).id)
        output, errors = await read(running, batch.output_file_id), await read(running, batch.error_file_id)

    assert ["good"] == [line["custom_id"] for line in output]
    assert [("bad", 400)] == [(line["custom_id"], line["response"]["status_code"]) for line in errors]
    assert batch.request_counts is not None
    assert (1, 1) == (batch.request_counts.completed, batch.request_counts.failed)


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        ("/v1/completions", {"model": "tiny", "prompt": "Hi", "max_tokens": 2}),
        ("/v1/embeddings", {"model": "tiny", "input": "Hi"}),
        ("/v1/responses", {"model": "tiny", "input": "Hi", "max_output_tokens": 16}),
    ],
)
async def test_other_endpoints_run_in_batches(tmp_path: Path, endpoint: str, body: dict[str, Any]) -> None:
    line = {"custom_id": "1", "method": "POST", "url": endpoint, "body": body}
    async with batching(tmp_path, 1) as running:
        batch = await ended(running, (await created(running, [line], endpoint=endpoint)).id)
        output = await read(running, batch.output_file_id)

    assert [200] == [each["response"]["status_code"] for each in output]
    assert batch.usage is not None
    assert 0 < batch.usage.input_tokens


async def test_a_cancelled_batch_keeps_what_was_answered(tmp_path: Path) -> None:
    """The other lines are in the error file."""
    lines = [a_line(str(n), max_tokens=50) for n in range(200)]
    async with batching(tmp_path, 1, options=quick(speed=1)) as running:
        made = await created(running, lines)
        async with asyncio.timeout(60):
            while not (await running.openai.batches.retrieve(made.id)).request_counts.completed:  # type: ignore[union-attr]
                await asyncio.sleep(0.05)
        cancelled = await running.openai.batches.cancel(made.id)
        batch = await ended(running, made.id)
        output, errors = await read(running, batch.output_file_id), await read(running, batch.error_file_id)

    assert ("cancelling", "cancelled") == (cancelled.status, batch.status)
    assert batch.cancelled_at is not None
    assert 0 < len(output) < 200
    assert sorted(map(str, range(200))) == sorted(line["custom_id"] for line in output + errors)
    assert {"batch_cancelled"} == {line["error"]["code"] for line in errors}


async def test_requests_about_batches_that_cannot_succeed(tmp_path: Path) -> None:
    async with batching(tmp_path, 1) as running:
        batches = running.openai.batches
        with pytest.raises(NotFoundError):
            await batches.retrieve("batch_x")
        with pytest.raises(NotFoundError) as missing:
            await batches.create(input_file_id="file-x", endpoint="/v1/embeddings", completion_window="24h")
        with pytest.raises(BadRequestError) as refused:
            await batches.create(input_file_id="file-x", endpoint="/v1/moderations", completion_window="24h")
        batch = await ended(running, (await created(running, [a_line("1")])).id)
        with pytest.raises(ConflictError):
            await batches.cancel(batch.id)

    assert ("input_file_id", "endpoint") == (missing.value.param, refused.value.param)


async def test_lines_are_charged_to_the_key_that_created_the_batch(tmp_path: Path) -> None:
    """The ledger has one record for each line, whose request id begins with the id of the batch."""
    admin = {"keys": [{"id": "root", "role": "owner", "secret": "owner-of-the-tests-6f1c0a9d"}]}
    async with batching(tmp_path, 1, admin=admin) as running:
        batch = await ended(running, (await created(running, [a_line(str(n)) for n in range(5)])).id)
        headers = {"authorization": "Bearer owner-of-the-tests-6f1c0a9d"}
        async with asyncio.timeout(60):
            while True:
                page = (
                    await running.http.get("/admin/v1/usage/records", params={"team": "blue"}, headers=headers)
                ).json()
                if len(page["data"]) >= 5:
                    break
                await asyncio.sleep(0.05)

    assert {f"{batch.id}-{place}" for place in range(5)} == {each["request_id"] for each in page["data"]}
    assert {"ci"} == {each["key"] for each in page["data"]}
    assert batch.usage is not None
    assert batch.usage.output_tokens == sum(each["completion_tokens"] for each in page["data"])


async def test_a_restarted_gateway_finishes_a_batch(tmp_path: Path) -> None:
    lines = [a_line(str(n), max_tokens=20) for n in range(100)]
    batches = {"lease_s": 1}
    async with batching(tmp_path, 1, options=quick(speed=1), batches=batches) as running:
        made = await created(running, lines)
        async with asyncio.timeout(60):
            while not (await running.openai.batches.retrieve(made.id)).request_counts.completed:  # type: ignore[union-attr]
                await asyncio.sleep(0.05)
    async with batching(tmp_path, 1, batches=batches) as running:
        batch = await ended(running, made.id)
        output = await read(running, batch.output_file_id)

    assert "completed" == batch.status
    assert [str(n) for n in range(100)] == [line["custom_id"] for line in output]


async def test_the_input_file_may_be_deleted_while_its_batch_runs(tmp_path: Path) -> None:
    lines = [a_line(str(n), max_tokens=20) for n in range(60)]
    async with batching(tmp_path, 1, options=quick(speed=1)) as running:
        made = await created(running, lines)
        async with asyncio.timeout(60):
            while (await running.openai.batches.retrieve(made.id)).status == "validating":
                await asyncio.sleep(0.05)
        await running.openai.files.delete(made.input_file_id)
        batch = await ended(running, made.id)

    assert batch.request_counts is not None
    assert ("completed", 60) == (batch.status, batch.request_counts.completed)
