"""Policy B: requests wait in the router until a worker is nearly free, and the shortest to compute goes first."""

from collections.abc import Sequence

from benchmarks.policies.account import ROUNDING_S
from benchmarks.policies.desk import Choice, Desk
from benchmarks.policies.index import Index
from benchmarks.policies.ties import lowest
from replay.policy import Ask, Setup, Usage

DEPTH_S = 0.05
"""A worker with no more backlog than this takes the next request."""
HOME_PRICE = 3.0
"""Seconds of backlog that a second of recomputing is worth, when a request's home is sought."""
AGEING = 0.3
"""Seconds of work that a second of waiting makes up for."""


class LateBinding:
    """A `Policy` that binds a request to a worker when that has next to nothing else to compute.

    A request's home is where backlog + 3 x uncached / rate is lowest, at any moment again. A worker that is nearly free
    takes, of the requests whose home it is, the one with the least uncached seconds - 0.3 x seconds waited; and idles
    if it is the home of none. A home that is busy is waited for only as long as no other is cheaper.
    """

    def __init__(self, setup: Setup, index: Index) -> None:
        self._desk = Desk(setup, index)
        self._setup = setup
        self._waiting: list[Ask] = []

    def submit(self, ask: Ask, now: float) -> None:  # noqa: ARG002
        self._waiting.append(ask)

    def poll(self, now: float) -> list[tuple[Ask, int]]:
        released: list[tuple[Ask, int]] = []
        while (following := self._next(now)) is not None:
            choice, worker = following
            self._waiting.remove(choice.ask)
            self._desk.send(choice, worker)
            released.append((choice.ask, worker))
        return released

    def next_poll_at(self, now: float) -> float | None:
        if not self._waiting:
            return None
        busy = [account for account in self._desk.accounts if not _is_low(account.backlog_s(now))]
        times = [account.backlog_falls_to(DEPTH_S, now) for account in busy]
        return min((at for at in times if at is not None), default=None)

    def first_token(self, ask: Ask, now: float) -> None:
        self._desk.first_token(ask, now)

    def finished(self, ask: Ask, usage: Usage, now: float) -> None:  # noqa: ARG002
        self._desk.finished(ask)

    def stored(self, worker: int, blocks: Sequence[int], parent: int | None, now: float) -> None:  # noqa: ARG002
        self._desk.stored(worker, blocks)

    def removed(self, worker: int, blocks: Sequence[int], now: float) -> None:  # noqa: ARG002
        self._desk.removed(worker, blocks)

    def _next(self, now: float) -> tuple[Choice, int] | None:
        """Return the next request and its worker; None while nothing waits whose home is nearly free."""
        backlogs_s = [account.backlog_s(now) for account in self._desk.accounts]
        free = {worker for worker, backlog_s in enumerate(backlogs_s) if _is_low(backlog_s)}
        if not free:
            return None
        choices = [self._desk.choice(ask, now) for ask in self._waiting]
        at_home = [(choice, home) for choice in choices if (home := self._home(choice, backlogs_s)) in free]
        if not at_home:
            return None
        return at_home[lowest([self._rank_s(choice, home) for choice, home in at_home], self._setup.rng)]

    def _home(self, choice: Choice, backlogs_s: Sequence[float]) -> int:
        costs_s = [
            backlog_s + HOME_PRICE * self._seconds(uncached)
            for backlog_s, uncached in zip(backlogs_s, choice.uncached_tokens, strict=True)
        ]
        return lowest(costs_s, self._setup.rng)

    def _rank_s(self, choice: Choice, worker: int) -> float:
        return self._seconds(choice.uncached_tokens[worker]) - AGEING * (choice.now - choice.ask.arrival)

    def _seconds(self, tokens: int) -> float:
        return tokens / self._setup.prefill_tokens_per_s


def _is_low(backlog_s: float) -> bool:
    return backlog_s <= DEPTH_S + 2 * ROUNDING_S
