"""The seam of every policy that the replay compares: what a router sees goes in, placements come out."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from replay.host_events import HostEvents


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """A request as a router sees it when it comes: neither its answer's length nor what follows it is known."""

    number: int
    """Its place in the trace."""
    session: str | None
    """Session that the caller names; None where the trace names none."""
    prompt_tokens: int
    """More than what `blocks` cover when the last block is partial."""
    blocks: tuple[int, ...]
    """Ids of the full blocks of the prompt, in order. An id names its block and all before it."""
    arrival: float
    """Seconds, on the clock of the replay."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Knowledge of a router about the engines before the first request. Workers are numbered from 0."""

    workers: int
    capacity_blocks: int
    """KV cache of one worker, in blocks of the trace."""
    block_tokens: int
    prefill_tokens_per_s: float
    """Rate that the router assumes, which may be wrong; the engines compute 10,000."""
    rng: random.Random
    """Randomness for ties and choices. The replay's arrivals have another source."""
    prefill_fixed_s: float = 0.01
    """Believed fixed cost of a prefill."""
    load_price: float | None = None
    """Seconds to load a block from the host tier, as a share of those to compute it, that our strategies assume at
    first. None: their default.
    """
    pulls: bool = False
    """Whether an engine can pull blocks from the host tier of another one."""
    host_blocks: int = 0
    """Host tier of one worker, in blocks of the trace, where engines can pull blocks."""
    pulled_from: dict[int, int] = field(default_factory=dict)
    """Worker from whose host tier an ask is to pull, by the number of the ask. A policy adds to it on release."""
    host_events: HostEvents = field(default_factory=HostEvents)
    """Events of the engines' host tiers."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Report of an engine at the end of an answer."""

    cached_tokens: int
    """Prompt tokens that came out of its cache."""
    completion_tokens: int
    ends_session: bool = False
    """The caller says that it was the last of its session, as ThunderAgent's callers do. Others do not look at it."""


class Policy(Protocol):
    """One way to place requests. Times are seconds and never run backwards from one call to the next.

    What the replay promises:

    1. After all that happens at one moment, and at `next_poll_at`, it calls `poll`.
    2. `first_token` and `finished` are reported once for each ask that was released, and at the moment itself.
    3. `stored` and `removed` come as late as the replay's event lag says, and later where a batch was lost; of one
       worker always in order. An id is stored when its first copy is there and removed when its last one goes, so a
       set can follow. Prompts are stored when their prefill ends: without lag, before `first_token` is reported.
    """

    def submit(self, ask: Ask, now: float) -> None:
        """*ask* came. It waits until `poll` releases it."""
        ...

    def poll(self, now: float) -> list[tuple[Ask, int]]:
        """The asks to be sent at *now*, each with its worker, each once."""
        ...

    def next_poll_at(self, now: float) -> float | None:
        """Return when `poll` may release something without another event; None if only an event can cause that."""
        ...

    def first_token(self, ask: Ask, now: float) -> None:
        """Its prefill is over."""
        ...

    def finished(self, ask: Ask, usage: Usage, now: float) -> None:
        """Its answer is over."""
        ...

    def stored(self, worker: int, blocks: Sequence[int], parent: int | None, now: float) -> None:
        """*worker* holds *blocks*, which follow each other and *parent*; None: the first begins a prompt."""
        ...

    def removed(self, worker: int, blocks: Sequence[int], now: float) -> None:
        """*worker* holds *blocks* no more."""
        ...
