"""Small workers and requests: blocks of 100 tokens, 1,000 tokens per second, no fixed cost."""

import random
from collections.abc import Sequence
from itertools import count

from benchmarks.policies.account import Account
from benchmarks.policies.desk import Choice
from replay.policy import Ask, Setup

BLOCK_TOKENS = 100

_numbers = count()


def a_setup(workers: int = 2, *, capacity_blocks: int = 100, fixed_s: float = 0.0, seed: int = 0) -> Setup:
    return Setup(workers, capacity_blocks, BLOCK_TOKENS, 1000.0, random.Random(seed), fixed_s)


def an_ask(*blocks: int, tokens: int | None = None, session: str | None = None, arrival: float = 0.0) -> Ask:
    """A prompt of *blocks* and 10 tokens more, or of *tokens*."""
    return Ask(
        next(_numbers), session, len(blocks) * BLOCK_TOKENS + 10 if tokens is None else tokens, tuple(blocks), arrival
    )


def an_account(*, pending: Sequence[int] = (), decodes: Sequence[int] = (), at: float = 0.0) -> Account:
    """With requests sent *at* that time, of so many uncached tokens; those that decode gave their first token then."""
    account = Account(a_setup())
    for tokens in decodes:
        ask = _of_tokens(tokens)
        account.send(ask, tokens, at)
        account.first_token(ask, at)
    for tokens in pending:
        account.send(_of_tokens(tokens), tokens, at)
    return account


def a_choice(ask: Ask, *accounts: Account, hits: Sequence[int] | None = None, now: float = 0.0) -> Choice:
    hits = [0] * len(accounts) if hits is None else hits
    return Choice(ask, hits, [ask.prompt_tokens - hit * BLOCK_TOKENS for hit in hits], accounts, now)


def _of_tokens(tokens: int) -> Ask:
    return an_ask(*range(tokens // BLOCK_TOKENS), tokens=tokens)
