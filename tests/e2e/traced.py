"""A gateway that traces, before workers and fallbacks that fail in ways of which a trace has to tell."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from simulator.server import serving
from tests.e2e.cascading import MortalWorker, on_bedrock, on_openai
from tests.e2e.governed import PRICE
from tests.e2e.stack import Stack, gateway, quick
from tests.fakes.bedrock import FakeBedrock

KEY = "wg-traced-5d0c1a6f4b7e49b2"
PROMPT = "the parrot of the captain knows where the treasure lies"
UNREACHABLE = "http://127.0.0.1:1"
CALLERS_TRACE, CALLERS_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CONTEXT = {"traceparent": f"00-{CALLERS_TRACE}-{CALLERS_SPAN}-01", "tracestate": "shop=1,cart=2"}


def body(**more: Any) -> dict[str, Any]:
    return {"model": "gpt-4o", "max_tokens": 8, "messages": [{"role": "user", "content": PROMPT}], **more}


def a_team(**more: Any) -> dict[str, Any]:
    return {"name": "blue", "keys": [{"id": "ci", "secret": KEY, "project": "search"}], "projects": ["search"], **more}


@asynccontextmanager
async def failing_over(tracing: Mapping[str, Any], /, **team: Any) -> AsyncIterator[tuple[Stack, str]]:
    """A model whose worker has just died, whose first fallback fails, and whose second, Bedrock, answers.

    With the address of the first fallback.
    """
    async with serving(quick()) as elsewhere, MortalWorker() as worker, FakeBedrock(bearer="abc").serving() as bedrock:
        model = {
            "price": PRICE,
            "fallbacks": [
                on_openai(elsewhere, model="tiny", id="second-site"),
                on_bedrock("qwen.traced-v1:0", bedrock.base_url, price={"input_usd": 1000.0, "output_usd": 2000.0}),
            ],
        }
        async with gateway(
            [{"url": worker.url, "id": "w1"}],
            model=model,
            bedrock={"auth": "bearer", "bearer_token": "abc", "canary_at_start": False},
            teams=[a_team(**team)],
            health={"interval_s": 60, "timeout_s": 1},
            retry={"wait_s": 0.05},
            tracing=dict(tracing),
        ) as stack:
            await stack.fault(elsewhere, "status", status=503)
            await worker.die()
            yield stack, elsewhere


@asynccontextmanager
async def breaking_off(tracing: Mapping[str, Any]) -> AsyncIterator[tuple[Stack, list[str]]]:
    """A model whose worker ``first`` breaks its next stream off, and whose worker ``second`` goes on with it.

    With the addresses of both.
    """
    async with serving(quick()) as first, serving(quick()) as second:
        workers: list[dict[str, Any]] = [{"url": first, "id": "first"}, {"url": second, "id": "second", "tier": 1}]
        async with gateway(workers, model={"continuation": "tokens"}, tracing=dict(tracing)) as stack:
            await stack.fault(first, "abort_mid_stream", after_tokens=3, count=1)
            yield stack, [first, second]


def a_stream() -> dict[str, Any]:
    """The body of a request for one that can be gone on with."""
    return body(stream=True, temperature=0, seed=7)
