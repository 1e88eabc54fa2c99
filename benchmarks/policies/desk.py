"""The common part of all policies: one request before the workers, and the accounts of what was sent."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.policies.account import Account
from benchmarks.policies.index import Index
from replay.policy import Ask, Setup


@dataclass(frozen=True, slots=True)
class Choice:
    """One request before the workers, which are numbered from 0 in both lists."""

    ask: Ask
    hits: Sequence[int]
    """Leading blocks of the prompt."""
    uncached_tokens: Sequence[int]
    """Tokens left to compute of the prompt; never 0, for an engine computes the last token of every prompt."""
    accounts: Sequence[Account]
    now: float


class Desk:
    """Keeps an account for each worker, and reports the *index* what happens."""

    def __init__(self, setup: Setup, index: Index) -> None:
        self.accounts = [Account(setup) for _ in range(setup.workers)]
        self._block_tokens = setup.block_tokens
        self._index = index
        self._worker_of: dict[Ask, int] = {}

    def choice(self, ask: Ask, now: float) -> Choice:
        hits = self._index.hits(ask)
        # The block of the last token is computed again even where it is held.
        most = (ask.prompt_tokens - 1) // self._block_tokens
        uncached = [ask.prompt_tokens - min(hit, most) * self._block_tokens for hit in hits]
        return Choice(ask, hits, uncached, self.accounts, now)

    def send(self, choice: Choice, worker: int) -> None:
        self._worker_of[choice.ask] = worker
        self.accounts[worker].send(choice.ask, choice.uncached_tokens[worker], choice.now)
        self._index.sent(worker, choice.ask)

    def first_token(self, ask: Ask, now: float) -> None:
        worker = self._worker_of[ask]
        self.accounts[worker].first_token(ask, now)
        self._index.first_token(worker, ask)

    def finished(self, ask: Ask) -> None:
        worker = self._worker_of.pop(ask)
        self.accounts[worker].finish(ask)
        self._index.finished(worker, ask)

    def stored(self, worker: int, blocks: Sequence[int]) -> None:
        self._index.stored(worker, blocks)

    def removed(self, worker: int, blocks: Sequence[int]) -> None:
        self._index.removed(worker, blocks)
