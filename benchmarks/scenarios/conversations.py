"""Conversations: every turn sends all that was said before it, answers too, and something new."""

import random
from dataclasses import dataclass

from replay.trace import Recorded, Trace

BLOCK_TOKENS = 128


@dataclass(frozen=True, slots=True)
class Conversations:
    """Sessions that have a system prompt in common, and nothing else.

    A session of t turns has prompts of system + opening, then of all before, its answer and a question more, and so on.
    Ranges are the least and the most; all between are equally likely.

    Raises ``ValueError`` for numbers that make no workload.
    """

    sessions: int
    turns: tuple[int, int]
    system_tokens: int
    opening_tokens: tuple[int, int]
    """Tokens of a session's first prompt beside the system prompt."""
    question_tokens: tuple[int, int]
    answer_tokens: tuple[int, int]
    think_s: float
    """Mean time from an answer to the next question; exponential."""

    def __post_init__(self) -> None:
        least = (self.turns[0], self.opening_tokens[0], self.question_tokens[0], self.answer_tokens[0])
        if self.sessions < 1 or min(least) < 1 or self.system_tokens < 0:
            raise ValueError("sessions, turns, openings, questions and answers must be at least 1")

    def trace(self, seed: int) -> Trace:
        """One session after the other, as a closed loop; a request's wait is from the answer before. O(blocks)."""
        rng = random.Random(seed)
        requests: list[Recorded] = []
        # Ids of the system's blocks come first.
        next_id = self.system_tokens // BLOCK_TOKENS
        for session in range(self.sessions):
            turns = self._turns(rng)
            requests += self._session(str(session), turns, next_id, rng, number=len(requests))
            next_id += sum(map(sum, turns)) // BLOCK_TOKENS + 2
        return Trace(BLOCK_TOKENS, True, requests)

    def _turns(self, rng: random.Random) -> list[tuple[int, int]]:
        """Return the new tokens of each prompt of a session, and the length of its answer."""
        return [
            (rng.randint(*(self.question_tokens if turn else self.opening_tokens)), rng.randint(*self.answer_tokens))
            for turn in range(rng.randint(*self.turns))
        ]

    def _session(
        self, name: str, turns: list[tuple[int, int]], first_id: int, rng: random.Random, *, number: int
    ) -> list[Recorded]:
        shared = self.system_tokens // BLOCK_TOKENS
        length = (self.system_tokens + sum(map(sum, turns))) // BLOCK_TOKENS
        # Nothing is ever taken back: block i of a session is the same in each of its turns.
        ids = (*range(shared), *range(first_id, first_id + length - shared))
        requests, tokens = [], self.system_tokens
        for turn, (new, answer) in enumerate(turns):
            tokens += new
            full, answered = tokens // BLOCK_TOKENS, (tokens + answer) // BLOCK_TOKENS
            wait_s = rng.expovariate(1 / self.think_s) if turn and self.think_s else 0.0
            requests.append(
                Recorded(number + turn, name, wait_s, tokens, answer, ids[:full], answer_blocks=ids[full:answered])
            )
            tokens += answer
        return requests
