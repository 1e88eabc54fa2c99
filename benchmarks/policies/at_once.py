"""Policies that send every request the moment it comes: an index, and a rule that chooses."""

from collections.abc import Sequence
from typing import Protocol

from benchmarks.policies.desk import Choice, Desk
from benchmarks.policies.index import Index
from replay.policy import Ask, Setup, Usage


class Rule(Protocol):
    """Chooses a worker. It may remember what it chose."""

    def choose(self, choice: Choice) -> int: ...


class AtOnce:
    """A `Policy` that holds nothing back: the *rule* chooses by what is known when a request comes."""

    def __init__(self, setup: Setup, index: Index, rule: Rule) -> None:
        self._desk = Desk(setup, index)
        self._rule = rule
        self._submitted: list[Ask] = []

    def submit(self, ask: Ask, now: float) -> None:  # noqa: ARG002
        self._submitted.append(ask)

    def poll(self, now: float) -> list[tuple[Ask, int]]:
        submitted, self._submitted = self._submitted, []
        return [(ask, self._send(ask, now)) for ask in submitted]

    def next_poll_at(self, now: float) -> float | None:  # noqa: ARG002
        return None

    def first_token(self, ask: Ask, now: float) -> None:
        self._desk.first_token(ask, now)

    def finished(self, ask: Ask, usage: Usage, now: float) -> None:  # noqa: ARG002
        self._desk.finished(ask)

    def stored(self, worker: int, blocks: Sequence[int], parent: int | None, now: float) -> None:  # noqa: ARG002
        self._desk.stored(worker, blocks)

    def removed(self, worker: int, blocks: Sequence[int], now: float) -> None:  # noqa: ARG002
        self._desk.removed(worker, blocks)

    def _send(self, ask: Ask, now: float) -> int:
        choice = self._desk.choice(ask, now)
        worker = self._rule.choose(choice)
        self._desk.send(choice, worker)
        return worker
