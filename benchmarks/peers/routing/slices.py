"""Slices of recorded traffic that are sent through every router: sessions, requests and their times.

A slice consists of sessions that arrive at fixed times, independent of the answers to other sessions. Inside a session,
the next turn follows the previous answer. In a trace without sessions, each chat is a session with one turn. All times
are in seconds of the workers and are divided by the load: at load 2, sessions and turns arrive twice as fast.
"""

import dataclasses
import itertools
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.live import TRACE as TAU
from benchmarks.live import Turn as Recording
from benchmarks.live import conversations
from benchmarks.replay.recorded import AGENTIC, CONVERSATION
from replay.trace import Recorded, read_trace
from replay.workload import OpenLoop

Message = dict[str, Any]

MODEL = "tiny"
CHARACTERS_PER_TOKEN = 4
"""Characters per token of words of `LETTERS`, in a simulated worker."""
LETTERS = "etaoinshrdlcumpg"
WORD_LETTERS = 8  # 32 bits
ROLES = ("user", "assistant")
TEMPLATE_TOKENS = {"user": 5, "assistant": 6}
"""Tokens that the chat template of a simulated worker adds to a message."""
LONGEST_PAUSE_S = 120.0
"""Time during which agents arrive. No pause in their trace is longer."""
TALKS_EVERY_S = 8.0
"""Mean time between the starts of two conversations of the tau trace, which has no recorded times."""
TOOL_S, USER_S = 1.0, 8.0
"""Mean seconds until a tool or a person answers in conversations of the tau trace."""


class Prompt(Protocol):
    def messages(self) -> Sequence[Message]: ...


@dataclass(frozen=True, slots=True)
class Said:
    """Prompt that was recorded as text."""

    recorded: Sequence[Message]

    def messages(self) -> Sequence[Message]:
        return self.recorded


@dataclass(frozen=True, slots=True)
class MadeUp:
    """A prompt of which only lengths and ids of blocks are known: equal blocks are equal text, and no others are.

    Each block is a message, by turns of user and assistant, so that a longer chat begins with the shorter one.
    """

    blocks: tuple[int, ...]
    block_tokens: int
    tail_tokens: int
    """Number of tokens after the last full block. Their text is unique."""
    number: int

    def messages(self) -> Sequence[Message]:
        """Return messages with as many simulated tokens as blocks and tail. Takes O(characters)."""
        messages = [
            _message(ROLES[place % len(ROLES)], block, self.block_tokens) for place, block in enumerate(self.blocks)
        ]
        return [*messages, _message(ROLES[0], ~self.number, self.tail_tokens)]


def _message(role: str, number: int, tokens: int) -> Message:
    """Return a message of *tokens* tokens including the template's tokens, with at least one token of its own."""
    return {"role": role, "content": _text(number, max(1, tokens - TEMPLATE_TOKENS[role]))}


def _text(number: int, tokens: int) -> str:
    """Return words that encode only *number*, of which 32 bits count."""
    word = "".join(LETTERS[number >> 4 * place & 15] for place in range(WORD_LETTERS))
    characters = tokens * CHARACTERS_PER_TOKEN
    return (word * (characters // WORD_LETTERS + 1))[:characters]


@dataclass(frozen=True, slots=True)
class Turn:
    wait_s: float
    """Pause in seconds after the previous answer, or 0 for the first turn."""
    prompt: Prompt
    output_tokens: int

    def body(self) -> bytes:
        """Return the body of a streamed chat. Takes O(characters)."""
        asked = {
            "model": MODEL,
            "messages": self.prompt.messages(),
            "max_tokens": self.output_tokens,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return json.dumps(asked, ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True)
class Session:
    begins_s: float
    """Start of the session in seconds after the start of the run."""
    turns: Sequence[Turn]

    def at(self, load: float) -> "Session":
        """Return the session at *load* times its speed."""
        turns = [dataclasses.replace(turn, wait_s=turn.wait_s / load) for turn in self.turns]
        return Session(self.begins_s / load, turns)


@dataclass(frozen=True, slots=True)
class WorkerRates:
    """Rates of the workers of a slice, before token counts are reduced."""

    blocks: int
    """Size of the KV cache in blocks of 16 tokens."""
    prefill_tokens_per_s: float
    tpot_ms: float = 12.0


@dataclass(frozen=True, slots=True)
class Slice:
    """Slice of a trace. *size* is the default number of conversations, requests or sessions."""

    title: str
    size: int
    most_turns: int | None
    """Default maximum number of turns per session, or None for no limit."""
    rates: WorkerRates
    shrink: int
    """Default factor by which prompts, caches and rates are smaller than recorded."""
    load: float
    """Default load of the slice."""
    sessions: "Callable[[Slicing], list[Session]]"


@dataclass(frozen=True, slots=True)
class Slicing:
    """Selected part of a trace, with its parameters."""

    size: int
    most_turns: int | None
    """Maximum number of turns per session, or None for no limit."""
    shrink: int
    seed: int


def tau(slicing: Slicing) -> list[Session]:
    """Conversations with a long system prompt and tools, their text as recorded, at times that are made up.

    Where more are wanted than were recorded, they are held again by other users: what users say differs from the first
    word on, and only the system prompt is the same.
    """
    rng = random.Random(slicing.seed)
    recorded = conversations(TAU, slicing.size)
    talks = [_held_again(recorded[number % len(recorded)], number // len(recorded)) for number in range(slicing.size)]
    rng.shuffle(talks)
    begins = itertools.accumulate(rng.expovariate(1 / TALKS_EVERY_S) for _ in talks)
    return [
        Session(
            begun,
            [
                Turn(_pause_s(turn.messages, rng) if number else 0.0, Said(turn.messages), turn.output_tokens)
                for number, turn in enumerate(talk[: slicing.most_turns])
            ],
        )
        for begun, talk in zip(begins, talks, strict=True)
    ]


def _held_again(talk: Sequence[Recording], time: int) -> Sequence[Recording]:
    """Return *talk* as it is held the *time*-th time after the recording; 0: as recorded."""
    return [Recording(_by_another(turn.messages, time), turn.output_tokens) for turn in talk] if time else talk


def _by_another(messages: Sequence[Message], user: int) -> list[Message]:
    first = next(place for place, message in enumerate(messages) if message["role"] == "user")
    said = {**messages[first], "content": f"User {user}: {messages[first]['content']}"}
    return [*messages[:first], said, *messages[first + 1 :]]


def _pause_s(messages: Sequence[Message], rng: random.Random) -> float:
    mean_s = TOOL_S if messages[-1]["role"] == "tool" else USER_S
    return rng.expovariate(1 / mean_s)


def conversation(slicing: Slicing) -> list[Session]:
    """Return the beginning of the chat trace with its recorded times, as sessions with one turn."""
    trace = read_trace(CONVERSATION).part(0, slicing.size)
    arrivals = OpenLoop(trace.requests, random.Random(slicing.seed), speed=1.0).begin()
    return [Session(at, [_turn(recorded, 0.0, trace.block_tokens, slicing)]) for at, recorded in arrivals]


def agentic(slicing: Slicing) -> list[Session]:
    """Return the first sessions of coding agents with their recorded pauses. The sessions start at random times."""
    rng = random.Random(slicing.seed)
    trace = read_trace(AGENTIC).part(0, slicing.size)
    sessions = []
    for _, asked in itertools.groupby(trace.requests, key=lambda recorded: recorded.session):
        turns = [
            _turn(recorded, recorded.wait_s if number else 0.0, trace.block_tokens, slicing)
            for number, recorded in enumerate(itertools.islice(asked, slicing.most_turns))
        ]
        sessions.append(Session(rng.random() * LONGEST_PAUSE_S, turns))
    return sorted(sessions, key=lambda session: session.begins_s)


def _turn(recorded: Recorded, wait_s: float, block_tokens: int, slicing: Slicing) -> Turn:
    tail_tokens = recorded.prompt_tokens - len(recorded.blocks) * block_tokens
    prompt = MadeUp(recorded.blocks, block_tokens // slicing.shrink, tail_tokens // slicing.shrink, recorded.number)
    return Turn(wait_s, prompt, recorded.output_tokens)


def turns_of(sessions: Sequence[Session]) -> Iterator[Turn]:
    return (turn for session in sessions for turn in session.turns)


SLICES: Mapping[str, Slice] = {
    "tau": Slice("tau-bench, airline conversations", 100, None, WorkerRates(1536, 2_000.0), 1, 9.0, tau),
    "conversation": Slice(
        "mooncake conversation, its head", 1200, None, WorkerRates(182_784, 10_000.0), 4, 0.4, conversation
    ),
    "agentic": Slice("20 sessions of coding agents", 20, 30, WorkerRates(20_480, 10_000.0), 4, 2.0, agentic),
}
