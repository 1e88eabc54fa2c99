"""Dynamo's `SelectionService` under the benchmark, in the process and without HTTP.

It hears of the caches by ZMQ from ports of the loopback interface, one for each worker, as from vLLM. Runs in an
environment of its own: the standard library and Dynamo's wheel.
"""

import asyncio
import itertools
import time
from collections.abc import Sequence
from typing import Any

# In an environment of its own, not in that of the checkout.
from dynamo._core import SelectionService  # type: ignore[import-not-found]

from benchmarks.peers.dynamo.caches import BLOCK_TOKENS, Prompt
from benchmarks.peers.dynamo.child import options_of, tell
from benchmarks.peers.dynamo.decision_trial import Decided, measure, situation_of

MODEL = "tiny"
WAIT_S = 120.0


class CachesUnknownError(Exception):
    """Error for a service that does not know the caches, although it received all events."""


async def run(prompts: Sequence[Prompt], ports: Sequence[str]) -> Decided:
    service = SelectionService()
    try:
        for worker, port in enumerate(ports):
            await service.upsert_worker(
                {
                    "worker_id": worker,
                    "model_name": MODEL,
                    "endpoint": "http://127.0.0.1:9",  # it chooses only; no one is asked anything
                    "block_size": BLOCK_TOKENS,
                    "kv_events_endpoint": f"tcp://127.0.0.1:{port}",
                }
            )
        await _know(service, prompts)

        async def decide(token_ids: list[int]) -> int:
            chosen = await service.select({"model_name": MODEL, "token_ids": token_ids})
            worker: int = chosen["worker_id"]
            return worker

        return await measure(decide, prompts)
    finally:
        await service.shutdown_async()


async def _know(service: Any, prompts: Sequence[Prompt]) -> None:
    """Return when the service knows the caches for all of *prompts*, in order, because the last are the latest.

    Raises:
        CachesUnknownError: if the service does not know the caches after two minutes.
    """
    give_up_at = time.monotonic() + WAIT_S
    unknown = itertools.cycle(prompts)
    known = 0
    prompt = next(unknown)
    while known < len(prompts):
        scores = await service.overlap_scores({"model_name": MODEL, "token_ids": prompt.token_ids})
        hits = {each["worker_id"]: each["device_blocks"] for each in scores["workers"] if each["device_blocks"]}
        if hits == prompt.held:
            known, prompt = known + 1, next(unknown)
        elif time.monotonic() > give_up_at:
            raise CachesUnknownError(f"{known} of {len(prompts)} prompts are known as they are")
        else:
            await asyncio.sleep(0.05)


def main() -> None:
    options = options_of(__doc__, "ports")
    tell(asyncio.run(run(situation_of(options).prompts, options.ports.split(","))))


if __name__ == "__main__":
    main()
