"""A gateway that refuses in every way that clients meet, and the requests that it refuses so.

Each client of the table is a program in its own language. It gets the cases as JSON, asks until it is refused, and
compares what it raised with what its users expect.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.e2e.governed import GATEWAY, PRICE, administration
from tests.e2e.stack import gateway

MAX_BODY_BYTES = 200_000
CONTEXT_TOKENS = 1024
NOWHERE = "http://127.0.0.1:9"  # the port of the discard service, which nothing listens on


@asynccontextmanager
async def refusing_gateway() -> AsyncIterator[str]:
    """Its cases: JSON with the base URL, and by name a key, a model, the words of the prompt and fields besides."""
    options = SimulatorOptions(port=0, speed=0, blocks=CONTEXT_TOKENS // 16)
    async with serving(options) as worker:
        models = [
            {"name": "tiny", "price": PRICE, "workers": [{"id": "w", "url": worker}]},
            {"name": "away", "workers": [{"id": "nowhere", "url": NOWHERE}]},
        ]
        server = {"max_body_bytes": MAX_BODY_BYTES}
        async with gateway([], models=models, server=server, **GATEWAY) as served:
            admin = administration(served)
            key = (await admin.key()).secret
            limits: dict[str, dict[str, float]] = {
                "rate limit": {"requests_per_minute": 1},
                "budget spent": {"tokens_per_day": 50},
            }
            cases: dict[str, dict[str, Any]] = {
                "wrong key": {"key": "wg-unknown-" + "A" * 43},
                "model not allowed": {"key": (await admin.key(await admin.team(models=["other"]))).secret},
                "unknown model": {"model": "gpt-9"},
                "bad field": {"extra": {"priority": 1}},
                "body too large": {"words": MAX_BODY_BYTES // 4},
                "context too long": {"words": 2 * CONTEXT_TOKENS},
                "no worker": {"model": "away"},
            }
            default = {"key": key, "model": "tiny", "words": 5, "extra": {}}
            for client in ("openai", "litellm", "langchain", "vercel"):
                for name, limit in limits.items():
                    cases[f"{name} ({client})"] = {"key": (await admin.limited(**limit)).secret}
            yield json.dumps({"base_url": f"{served.url}/v1", "cases": {n: default | c for n, c in cases.items()}})
