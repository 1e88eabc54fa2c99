"""Questions about long contexts: documents, code bases, case files. Every request is one context and one question."""

import random
from dataclasses import dataclass

from replay.trace import Recorded, Trace

BLOCK_TOKENS = 128


@dataclass(frozen=True, slots=True)
class Contexts:
    """A population of contexts that is renewed all the time.

    A request is about a new context with the chance *new_share*, which takes the place of the oldest, else about one
    of the *live* newest, each as likely as the others. So a context is asked about 1 / new_share times before it is
    forgotten, and the share of requests that no one could have computed before is *new_share*, from first to last.

    Raises ``ValueError`` for numbers that make no workload.
    """

    context_tokens: int
    live: int
    """Contexts that are asked about at one time."""
    new_share: float
    requests: int
    question_tokens: tuple[int, int] = (50, 350)
    """Shortest and longest; all between are equally likely, as with answers."""
    answer_tokens: tuple[int, int] = (100, 400)

    def __post_init__(self) -> None:
        if min(self.context_tokens, self.live, self.requests, self.question_tokens[0], self.answer_tokens[0]) < 1:
            raise ValueError("contexts, questions, answers and requests must be at least 1")
        if not 0 < self.new_share <= 1:
            raise ValueError(f"new_share must be above 0 and at most 1, not {self.new_share}")

    def trace(self, seed: int) -> Trace:
        """The requests in the order in which they are asked; when, is for a `Workload` to say. O(blocks)."""
        rng = random.Random(seed)
        shared = self.context_tokens // BLOCK_TOKENS
        longest = (self.context_tokens + self.question_tokens[1]) // BLOCK_TOKENS
        # Ids of one context's blocks, and of the blocks of one question, which begin inside the context's last one.
        newest, question_base = self.live - 1, 2**31
        requests = []
        for number in range(self.requests):
            if rng.random() < self.new_share:
                newest += 1
                context = newest
            else:
                context = newest - rng.randrange(self.live)
            prompt_tokens = self.context_tokens + rng.randint(*self.question_tokens)
            own = prompt_tokens // BLOCK_TOKENS - shared
            first, first_own = context * shared, question_base + number * (longest - shared + 1)
            blocks = (*range(first, first + shared), *range(first_own, first_own + own))
            requests.append(Recorded(number, None, 0.0, prompt_tokens, rng.randint(*self.answer_tokens), blocks))
        return Trace(BLOCK_TOKENS, False, requests)
