"""Dynamo's offline replay. Runs in an environment of its own: the standard library and its wheel.

`--job FILE` holds one JSON object: ``trace`` (a file in Mooncake's form), ``block_tokens``, ``workers``,
``engine`` (fields of its engine's configuration) and ``router`` (None: by turns; else what `KvRouterConfig` takes).
Prints one JSON object: a list of ``[arrival_ms, prompt_tokens, reused_tokens, ttft_ms,
e2e_ms, output_tokens, worker]`` for every request, under ``requests``.

What it calls `router_mode` "kv_router" hears the events of its engines at once.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# In an environment of its own, not in that of the checkout.
from dynamo._core import KvRouterConfig, run_mocker_trace_replay  # type: ignore[import-not-found]

FIELDS = (
    *("arrival_time_ms", "input_length", "reused_input_tokens", "ttft_ms", "e2e_latency_ms", "output_length"),
    "decode_worker_idx",  # where one engine does both, its index stands here
)


def replay(asked: Mapping[str, Any]) -> list[list[float]]:
    router = asked["router"]
    found = run_mocker_trace_replay(
        [asked["trace"]],
        extra_engine_args={"engine": asked["engine"]},
        num_workers=asked["workers"],
        router_mode="round_robin" if router is None else "kv_router",
        router_config=None if router is None else KvRouterConfig(**router),
        trace_block_size=asked["block_tokens"],
        capture_per_request=True,
    )
    return [[request[field] for field in FIELDS] for request in found.per_request]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--job", type=Path, required=True)
    asked = json.loads(parser.parse_args().job.read_text(encoding="utf-8"))
    print(json.dumps({"requests": replay(asked)}))


if __name__ == "__main__":
    main()
