"""Alternating runs of Warmgate and a peer for the same trial, each in a new process, with the results of both."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.environment import Peer
from benchmarks.processes import Processes
from benchmarks.report import Spread
from benchmarks.shipped import Shipped

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT_S = 170.0

Found = Mapping[str, Any]
"""Last line of a process's output, a JSON object."""


@dataclass(frozen=True, slots=True)
class Program:
    """Program of one side of a trial."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]

    @classmethod
    def ours(cls, module: str, shipped: Shipped | None) -> "Program":
        """Return the program for *module* of `benchmarks.peers.dynamo`, with the compiled wheel or else the sources."""
        places = [*([str(shipped.directory)] if shipped else []), str(ROOT)]
        command = [sys.executable, "-P", "-m", f"benchmarks.peers.dynamo.{module}"]
        return cls("Warmgate", command, {"PYTHONPATH": ":".join(places)})

    @classmethod
    def of(cls, peer: Peer, module: str) -> "Program":
        """Return the program for *module* of `benchmarks.peers.dynamo` in the environment of *peer*.

        Dynamo logs only errors, because it would otherwise log every decision.
        """
        return cls(peer.name, [str(peer.python), "-m", f"benchmarks.peers.dynamo.{module}"], {"DYN_LOG": "error"})


def run(
    processes: Processes,
    program: Program,
    options: Mapping[str, object],
    *,
    meanwhile: Callable[[], None] | None = None,
) -> Found:
    """Run *program* and return its result. *meanwhile* is called after the start of the program.

    Raises:
        ChildFailedError: if the program failed or took too long.
    """
    arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    child = processes.start(program.name.lower(), [*program.command, *arguments], environment=program.environment)
    try:
        if meanwhile is not None:
            meanwhile()
        printed = child.wait(timeout_s=TIMEOUT_S)
    finally:
        child.stop()
    found: Found = json.loads(printed.splitlines()[-1])
    return found


@dataclass(frozen=True, slots=True)
class Sides:
    """Results of both sides, round by round."""

    ours: Sequence[Found]
    theirs: Sequence[Found]

    def spreads(self, figure: Callable[[Found], float]) -> tuple[Spread, Spread, Spread]:
        """Return Warmgate's figures, the peer's figures, and their ratio in the same round."""
        ours, theirs = [figure(found) for found in self.ours], [figure(found) for found in self.theirs]
        ratios = [own / other for own, other in zip(ours, theirs, strict=True)]
        return Spread.of(ours), Spread.of(theirs), Spread.of(ratios)

    @property
    def wrong(self) -> int:
        """Return the number of wrong answers of both sides."""
        return sum(found["wrong"] for found in (*self.ours, *self.theirs))


def by_turns(ours: Callable[[], Found], theirs: Callable[[], Found], *, rounds: int) -> Sides:
    """Run both sides *rounds* times. The side that starts alternates."""
    mine: list[Found] = []
    others: list[Found] = []
    for number in range(rounds):
        turns = [(ours, mine), (theirs, others)]
        for side, found in turns if number % 2 == 0 else reversed(turns):
            found.append(side())
    return Sides(mine, others)
