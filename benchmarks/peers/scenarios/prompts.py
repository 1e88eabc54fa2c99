"""Chat requests of scenarios that create them during the run."""

import json
import random

from benchmarks.chat_bodies import words
from benchmarks.peers.line import wire
from benchmarks.stub_worker import EVENTS_PER_STREAM

POOL_CHARACTERS = 1_000_000
STEP = 7_919  # a prime: neighbors begin far from each other


def chat(question: str, *, system: str = "", streams: bool = False) -> bytes:
    """Return a chat request as HTTP bytes."""
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": question})
    body = {"model": "tiny", "messages": messages, "max_tokens": EVENTS_PER_STREAM}
    return wire(json.dumps({**body, "stream": True} if streams else body).encode())


class Distinct:
    """Prompts that differ from their first character on."""

    def __init__(self, seed: int, characters: int) -> None:
        self._pool = words(random.Random(seed), POOL_CHARACTERS)
        self._characters = characters

    def __call__(self, number: int, *, streams: bool = False) -> bytes:
        """Return request *number*."""
        start = number * STEP % (len(self._pool) - self._characters)
        # The number goes first, its last digit foremost.
        text = f"{str(number)[::-1]} {self._pool[start : start + self._characters]}"
        return chat(text[: self._characters], streams=streams)
