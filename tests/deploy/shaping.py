"""What a gateway does to traffic beside choosing a worker, for a run that Prometheus looks at, and who asks for it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from simulator.roles import HalfOptions
from simulator.server import serving
from tests.e2e.stack import quick
from tests.storage import free_port

MAIL = "Write to ada.lovelace@example.com, please. "
LONG = " ".join(f"word {number}" for number in range(600))
"""Worth to be computed elsewhere."""


@dataclass(frozen=True, slots=True)
class Shaping:
    """Settings to be put beside others."""

    models: Sequence[Mapping[str, Any]]
    groups: Mapping[str, Any]

    asked: Sequence[tuple[str, str]] = (("either", MAIL), ("poet", ""), ("halves", LONG))
    """Names that are asked for, and texts before the question."""


@asynccontextmanager
async def shaping(*variants: str) -> AsyncIterator[Shaping]:
    """A route to *variants*, which are models; a LoRA adapter; a model of two halves; guardrails; traces.

    One guardrail, and who learns of traces, are away: of these it is seen that they are.
    """
    async with AsyncExitStack() as exits:
        lora = await exits.enter_async_context(serving(quick(lora_load_ms=20)))
        halves = []
        for role in ("prefill", "decode"):
            half = HalfOptions(side_channel_port=free_port(), lease_s=20)
            url = await exits.enter_async_context(serving(quick(role=role, half=half)))
            halves.append({"url": url, "role": role})
        base = {"workers": [{"url": lora}]}
        yield Shaping(
            models=[
                {"name": "tiny", **base},
                {"name": "poet", **base, "adapter": {"of": "tiny", "path": "/poet", "load_on_demand": True}},
                {
                    "name": "halves",
                    "upstream_model": "tiny",
                    "workers": halves,
                    "disaggregation": {"flow": "nixl", "min_uncached_tokens": 64},
                },
            ],
            groups={
                "routes": [
                    {
                        "name": "either",
                        "to": [{"model": variant, "weight": place + 1} for place, variant in enumerate(variants)],
                    }
                ],
                "guardrails": [
                    {"name": "personal", "kind": "pii"},
                    {
                        "name": "outside",
                        "kind": "http",
                        "url": f"http://127.0.0.1:{free_port()}",
                        "timeout_s": 0.5,
                        "on_unavailable": "fail_open",
                    },
                ],
                "tracing": {"endpoint": f"http://127.0.0.1:{free_port()}"},
            },
        )
