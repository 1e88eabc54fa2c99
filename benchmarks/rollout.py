"""Choice of a model for requests to a route, with the real gateway over HTTP and simulated workers.

1. dealt: requests of no one in particular, 95 for one model and 5 for its canary.
2. sticky: as many end users, one request each, by the same weights.
3. again: users of before, before another process with the same settings: a replica, or the gateway after a restart.
4. raised: the same users, where the canary has twice the weight: who moves, and where to.
5. by size: prompts of several lengths, before a rule that sends long ones to a larger model.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvloop

from benchmarks.processes import ChildFailedError, Processes, free_port, start_gateway
from benchmarks.report import Bar, Circumstances, Report, Table, argument_parser, conclude

PACKAGES = ("fastapi", "uvicorn", "uvloop", "httptools", "httpx", "msgspec")
STABLE, CANARY, LARGE = "stable", "canary", "large"
CANARY_PERCENT = 5.0
LONG_TOKENS = 1000
SIZES = (100, 250, 500, 750, 1250, 1500, 2000, 4000)
"""Prompt lengths in tokens. All differ enough from `LONG_TOKENS` that an estimate cannot be on the wrong side."""
USUAL_TOKENS = 60
"""Tokens per prompt in the other parts, from which the gateway learns the bytes per token."""
WORD = "etaoins "
"""Text of two tokens of a simulated worker."""
AT_ONCE = 48
TOLERANCE_PERCENT = 1.0
"""Tolerance of a share, in percent of all requests."""

Chosen = Mapping[str, str]
"""Model by end user."""


def a_text(tokens: int) -> str:
    return WORD * (tokens // 2)


class AskedInVainError(Exception):
    """Error for a request that was not answered."""


class Clients:
    """Clients of one gateway, with a maximum number of concurrent requests."""

    def __init__(self, url: str, client: httpx.AsyncClient) -> None:
        self._url = url
        self._client = client
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def model(self, route: str, *, user: str | None = None, tokens: int = USUAL_TOKENS) -> str:
        """Return the model that answered one request for *route*.

        Raises:
            AskedInVainError: if the answer does not have status 200.
        """
        body: dict[str, Any] = {
            "model": route,
            "max_tokens": 1,
            "messages": [{"role": "user", "content": a_text(tokens)}],
        }
        if user is not None:
            body["user"] = user
        async with self._turns:
            reply = await self._client.post(f"{self._url}/v1/chat/completions", json=body)
        if reply.status_code != 200:
            raise AskedInVainError(f"{reply.status_code} {reply.text[:200]}")
        return reply.headers["x-warmgate-model"]

    async def dealt(self, route: str, count: int) -> Counter[str]:
        return Counter(await asyncio.gather(*[self.model(route) for _ in range(count)]))

    async def by_user(self, route: str, users: Iterable[str]) -> Chosen:
        users = list(users)
        return dict(zip(users, await asyncio.gather(*[self.model(route, user=user) for user in users]), strict=True))

    async def by_size(self, route: str, times: int) -> dict[int, Counter[str]]:
        found: dict[int, Counter[str]] = {}
        for size in SIZES:
            found[size] = Counter(await asyncio.gather(*[self.model(route, tokens=size) for _ in range(times)]))
        return found


def routes() -> list[dict[str, Any]]:
    def variants(canary: float) -> list[dict[str, Any]]:
        return [{"model": STABLE, "weight": 100.0 - canary}, {"model": CANARY, "weight": canary}]

    sticky = {"sticky": "user", "salt": "canary"}
    rules = [{"name": "long", "prompt_tokens_from": LONG_TOKENS, "model": LARGE}]
    return [
        {"name": "dealt", "to": variants(CANARY_PERCENT)},
        {"name": "kept", "to": variants(CANARY_PERCENT), **sticky},
        {"name": "raised", "to": variants(2 * CANARY_PERCENT), **sticky},
        {"name": "sized", "to": [{"model": STABLE}], "rules": rules},
    ]


@contextmanager
def workers(processes: Processes) -> Iterator[list[dict[str, Any]]]:
    """Yield the models with one worker each."""
    models = []
    for name in (STABLE, CANARY, LARGE):
        command = [sys.executable, "-m", "gateway", "simulate", "--port", "0", "--speed", "0", "--blocks", "16384"]
        url = processes.start(name, command).wait_for_ready_line()
        models.append({"name": name, "upstream_model": "tiny", "workers": [{"url": url}]})
    yield models


@dataclass(frozen=True, slots=True)
class Found:
    """Results of all parts. Shares are in percent."""

    requests: int
    dealt_percent: float
    """Share of requests that the canary got."""
    kept_percent: float
    again: int
    """Number of users that sent another request."""
    moved_again: int
    moved_percent: float
    """Share of users that changed models when the weight of the canary was raised."""
    moved_back: int
    """Number of users that moved from the canary to the other model."""
    by_size: Mapping[int, Mapping[str, int]]

    @property
    def missent(self) -> int:
        """Return requests by size that got a different model than the rule requires."""
        return sum(
            count
            for size, models in self.by_size.items()
            for model, count in models.items()
            if model != (LARGE if size >= LONG_TOKENS else STABLE)
        )


def found_of(
    dealt: Counter[str], first: Chosen, again: Chosen, raised: Chosen, by_size: Mapping[int, Counter[str]]
) -> Found:
    moved = [(first[user], model) for user, model in raised.items() if first[user] != model]
    return Found(
        requests=dealt.total(),
        dealt_percent=100.0 * dealt[CANARY] / dealt.total(),
        kept_percent=100.0 * Counter(first.values())[CANARY] / len(first),
        again=len(again),
        moved_again=sum(first[user] != model for user, model in again.items()),
        moved_percent=100.0 * len(moved) / len(raised),
        moved_back=moved.count((CANARY, STABLE)),
        by_size={size: dict(models) for size, models in by_size.items()},
    )


async def run(options: argparse.Namespace) -> Report:
    report = Report("rollout", "Canaries, and rules by size", Circumstances.observe(seed=None, packages=PACKAGES))
    users = [f"user-{number}" for number in range(options.requests)]
    with Processes() as processes, workers(processes) as models:
        urls = [
            start_gateway(
                processes,
                {"server": {"port": free_port()}, "models": models, "routes": routes(), "logging": {"requests": False}},
                name=name,
            )[1]
            for name in ("first", "other")
        ]
        async with httpx.AsyncClient(timeout=60, verify=False) as client:
            one, other = (Clients(url, client) for url in urls)
            dealt = await one.dealt("dealt", options.requests)
            first = await one.by_user("kept", users)
            again = await other.by_user("kept", users[: options.again])
            raised = await one.by_user("raised", users[: options.again])
            by_size = await one.by_size("sized", options.times)
    tell(report, found_of(dealt, first, again, raised, by_size))
    return report


def tell(report: Report, found: Found) -> None:
    report.bars = [
        Bar(
            "dealt: the canary's share in percent, off by",
            abs(found.dealt_percent - CANARY_PERCENT),
            "<=",
            TOLERANCE_PERCENT,
        ),
        Bar(
            "sticky: the canary's share in percent, off by",
            abs(found.kept_percent - CANARY_PERCENT),
            "<=",
            TOLERANCE_PERCENT,
        ),
        Bar("again: users who got another model", found.moved_again, "==", 0),
        Bar("raised: users who lost the canary", found.moved_back, "==", 0),
        Bar("by size: requests that got another model than the rule says", found.missent, "==", 0),
    ]
    report.tables = [
        Table(
            "Where requests went",
            ("part", "requests", "canary, %", "to be, %"),
            [
                ("dealt", found.requests, found.dealt_percent, CANARY_PERCENT),
                ("sticky by user", found.requests, found.kept_percent, CANARY_PERCENT),
            ],
        ),
        Table(
            "Who moved",
            ("part", "users", "moved, %", "of them from the canary"),
            [
                ("again, before another gateway", found.again, 100.0 * found.moved_again / found.again, 0),
                (f"raised to {2 * CANARY_PERCENT:g} %", found.again, found.moved_percent, found.moved_back),
            ],
        ),
        Table(
            f"By size, with a rule from {LONG_TOKENS} tokens on",
            ("prompt tokens", f"to {STABLE}", f"to {LARGE}"),
            [(size, each.get(STABLE, 0), each.get(LARGE, 0)) for size, each in found.by_size.items()],
        ),
    ]
    report.notes = [
        f"Sticky callers meet the weights as chance does: a standard deviation of "
        f"{100.0 * (CANARY_PERCENT / 100 * (1 - CANARY_PERCENT / 100) / found.requests) ** 0.5:.2g} percent here.",
        "Prompt tokens of the rule are the gateway's estimate, from the bytes of the prompt.",
    ]
    report.figures = {"found": found}


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("rollout", __doc__)
    parser.add_argument("--requests", type=int, default=10_000, help="dealt; and users, each with one request")
    parser.add_argument("--again", type=int, default=2_000, help="of the users, who ask again")
    parser.add_argument("--times", type=int, default=25, help="requests of each size")
    return parser.parse_args(arguments)


def main() -> int:
    options = parse_arguments()
    return conclude(
        "rollout",
        lambda: uvloop.run(run(options)),
        results=options.results,
        cannot_run=[ChildFailedError, AskedInVainError],
    )


if __name__ == "__main__":
    sys.exit(main())
