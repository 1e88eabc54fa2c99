import argparse
import asyncio
import json
from collections.abc import Callable
from itertools import pairwise

import httpx
import pytest

from benchmarks.batch_http import BatchFailedError, Figures, Workload, as_batch, figures, in_file_order, report_of
from simulator.tokens import TokenSequence

WORKLOAD = Workload(groups=5, lines=3, shared_tokens=64, own_tokens=32)
USAGE = {"prompt_tokens": 96, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 64}}
OPTIONS = argparse.Namespace(workers=2, blocks=1280)


def a_client(answer: Callable[[httpx.Request], httpx.Response]) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://gateway")


def test_no_line_follows_one_of_its_group() -> None:
    """Groups differ in their first block of 16 tokens, and lines in the first block after the shared one."""
    prompts = [body["prompt"] for body in WORKLOAD.bodies()]

    assert {96} == {len(TokenSequence.from_text(prompt)) for prompt in prompts}
    assert (5, 15) == (len({prompt[:64] for prompt in prompts}), len({prompt[256:320] for prompt in prompts}))
    assert all(one[:64] != other[:64] for one, other in pairwise(prompts))


def test_a_cache_without_limit_computes_a_prefix_once_per_group() -> None:
    assert 2 * 64 / (3 * 96) == WORKLOAD.boundless_hit


async def test_only_so_many_requests_are_in_flight() -> None:
    most = running = 0

    async def gateway(_: httpx.Request) -> httpx.Response:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return httpx.Response(200, json={"usage": USAGE})

    async with httpx.AsyncClient(transport=httpx.MockTransport(gateway), base_url="http://gateway") as client:
        _, usages = await in_file_order(client, WORKLOAD.bodies(), 4)

    assert (15, 4) == (len(usages), most)


@pytest.mark.parametrize(("status", "completed"), [("failed", 0), ("completed", 14)])
async def test_a_batch_that_is_not_complete_is_no_result(status: str, completed: int) -> None:
    def gateway(request: httpx.Request) -> httpx.Response:
        counts = {"completed": completed}
        found = {"id": "x", "status": status, "request_counts": counts}
        return httpx.Response(200, json=found if "batches" in request.url.path else {"id": "file-1"})

    async with a_client(gateway) as client:
        with pytest.raises(BatchFailedError, match=status):
            await as_batch(client, WORKLOAD.bodies())


async def test_the_usage_of_a_batch_is_that_of_its_output() -> None:
    def gateway(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/content"):
            line = json.dumps({"response": {"body": {"usage": USAGE}}})
            return httpx.Response(200, text="\n".join([line] * 15))
        if request.url.path == "/admin/v1/usage":
            total = {"requests": 15, "prompt_tokens": 15 * 96, "completion_tokens": 151}
            return httpx.Response(200, json={"total": total})
        return httpx.Response(
            200, json={"id": "x", "status": "completed", "request_counts": {"completed": 15}, "output_file_id": "y"}
        )

    async with a_client(gateway) as client:
        found = await figures(client, 2.0, (await as_batch(client, WORKLOAD.bodies()))[1])

    assert Figures(2.0, 15 * 96, 15 * 64, 150, (15, 15 * 96, 151)) == found
    report = report_of(OPTIONS, WORKLOAD, Figures(6.0, 15 * 96, 0, 150, (15, 15 * 96, 150)), found)
    assert [(3.0, True), (1.5, True), (1, False)] == [(round(bar.value, 6), bar.is_met) for bar in report.bars]
