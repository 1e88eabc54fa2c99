"""Hashing of a session, or of the beginning of a prompt, over the workers, whatever their load."""

import hashlib

from benchmarks.policies.at_once import Rule
from benchmarks.policies.desk import Choice
from replay.policy import Ask


class Rendezvous:
    """Highest random weight of the *k*-th block; k = 0: of the session.

    An id of a block names all before it, so requests meet exactly if they have the first k blocks in common. A prompt
    of fewer blocks goes by its last one. A request without a key is placed by *otherwise*.
    """

    def __init__(self, k: int, *, otherwise: Rule) -> None:
        self._k = k
        self._otherwise = otherwise

    def choose(self, choice: Choice) -> int:
        key = key_of(choice.ask, self._k)
        if key is None:
            return self._otherwise.choose(choice)
        return max(range(len(choice.accounts)), key=lambda worker: weight(f"{key}/{worker}"))


def key_of(ask: Ask, k: int) -> str | None:
    """Return the key that is hashed; None if *ask* has none."""
    if k == 0:
        return ask.session
    return str(ask.blocks[:k][-1]) if ask.blocks else None


def weight(text: str) -> int:
    """64 bits, the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
