"""Chat requests for load tests, with the same system prompt and different questions."""

import json
import random
from dataclasses import dataclass
from typing import Literal

from benchmarks.stub_worker import EVENTS_PER_STREAM

PROMPTS = 64
PATH = "/v1/chat/completions"

Load = Literal["requests", "streams"]
LOADS: tuple[Load, ...] = ("requests", "streams")


@dataclass(frozen=True, slots=True)
class Size:
    """Lengths of the parts of a prompt, in characters."""

    name: str
    """Name of the size of the whole body, which includes the JSON around both parts."""
    system_characters: int
    """Length of the system prompt, which all requests share."""
    user_characters: int


SMALL = Size("1.2 kB", 700, 330)
SIZES = (SMALL, Size("20 kB", 13_300, 6_500), Size("220 kB", 150_000, 69_800))


def bodies(load: Load, rng: random.Random, size: Size = SMALL) -> list[str]:
    """Return ``PROMPTS`` bodies, which a round sends in turn."""
    system = words(rng, size.system_characters)
    return [_body(system, words(rng, size.user_characters), streams=load == "streams") for _ in range(PROMPTS)]


def one_body(load: Load, rng: random.Random, size: Size = SMALL) -> str:
    """Return a body with a unique system prompt."""
    system, question = words(rng, size.system_characters), words(rng, size.user_characters)
    return _body(system, question, streams=load == "streams")


def words(rng: random.Random, characters: int) -> str:
    """Return text of *characters* characters with the letter frequencies of prose."""
    letters = "".join(rng.choices("etaoinshrdlu    ", k=2 * characters))
    return " ".join(letters.split())[:characters]


def _body(system: str, question: str, *, streams: bool) -> str:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    body = {"model": "tiny", "messages": messages, "max_tokens": EVENTS_PER_STREAM, "temperature": 0.7}
    return json.dumps({**body, "stream": True} if streams else body)
