"""All entrants of a scenario, started before the same workers and ready; who cannot be is named and left out."""

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.bench import Bench, Target, check_answers, two_cores
from benchmarks.load_tools import install_tools, tool_versions
from benchmarks.peers.entrants import CACHE_AWARE, ENTRANTS, Entrant, Stage, Wheel
from benchmarks.peers.environment import PEERS, NotInstalledError
from benchmarks.processes import ChildFailedError, Processes, pinned
from benchmarks.report import RESULTS, Circumstances, Report
from benchmarks.streams import allow_files

PACKAGES = ("fastapi", "uvicorn", "uvloop", "httptools", "httpx", "numpy", "msgspec", "prometheus-client")
CONNECTIONS = 32
SHIPPED = "the wheel that the image holds, its core compiled"
FILES = 4_096
"""Open at once, for every process: 512 connections on either side, with what belongs to them."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Options of a run. None: the scenario's own value."""

    seed: int = 1
    rounds: int | None = None
    seconds: float | None = None
    entrants: tuple[Entrant, ...] | None = None
    results: Path = RESULTS
    wheel: Wheel | None = None
    """Ours, for all scenarios of a run; None: built for each."""

    def or_else(self, *, rounds: int, seconds: float, entrants: Sequence[str] = CACHE_AWARE) -> "Wanted":
        """The same, with the scenario's own where nothing was asked for."""
        return Wanted(
            seed=self.seed,
            rounds=self.rounds or rounds,
            seconds=self.seconds or seconds,
            entrants=self.entrants or tuple(ENTRANTS[name] for name in entrants),
            wheel=self.wheel,
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """The measurements that are wanted."""

    seed: int
    rounds: int
    seconds: float
    entrants: tuple[Entrant, ...]
    wheel: Wheel | None = None


@dataclass(slots=True)
class Field:
    """Those that are there to be measured."""

    stage: Stage
    entrants: tuple[Entrant, ...]
    """Installed, whether started or not."""
    missing: list[str] = field(default_factory=list)
    """Sentences for the report about who is not there."""

    @property
    def bench(self) -> Bench:
        return self.stage.bench

    def start(self, workers: Sequence[str], *, checked: bool = True) -> list[tuple[Entrant, Target]]:
        """Everybody before *workers*, ready and, when *checked*, seen to answer both kinds of request.

        Raises:
            ChildFailedError: one of ours is not.
        """
        started = []
        for entrant in self.entrants:
            target = self.start_one(entrant, workers, checked=checked)
            if target is not None:
                started.append((entrant, target))
        return started

    def start_one(self, entrant: Entrant, workers: Sequence[str], *, checked: bool = True) -> Target | None:
        """*entrant* alone; None where it did not start or answer, which `missing` then reports. Raises as `start`."""
        say(f"starting {entrant.name}")
        try:
            target = entrant.start(self.stage, workers)
            if checked:
                check_answers(target)
        except ChildFailedError as error:
            if entrant.is_ours:
                raise
            say(str(error))
            self.missing.append(f"{entrant.name} did not start, or did not answer: it is not in the tables.")
            return None
        return dataclasses.replace(target, name=entrant.name)


@contextmanager
def taking_the_field(wanted: Wanted) -> Iterator[Field]:
    """Cores, tools and environments; no one runs yet. What is started inside ends with the block.

    Raises:
        ChildFailedError: this machine has one core only, or wrk and nginx cannot be had, or files not opened.
    """
    proxy_core, load_core = two_cores()
    install_tools()
    allow_files(FILES)
    installed, missing = [], []
    for entrant in wanted.entrants:
        try:
            entrant.install()
            installed.append(entrant)
        except NotInstalledError as fault:
            say(str(fault))
            missing.append(f"{entrant.name} could not be installed: it is not in the tables.")
    with Processes() as processes, pinned({load_core}):
        bench = Bench(processes, proxy_core=proxy_core, load_core=load_core, connections=CONNECTIONS, seed=wanted.seed)
        yield Field(Stage(bench, wanted.wheel or Wheel()), tuple(installed), missing)


def new_report(scenario: str, title: str, wanted: Wanted) -> Report:
    """A report with the versions of all entrants in it."""
    install_tools()
    pins = {entrant.peer: _version(entrant.peer) for entrant in wanted.entrants if entrant.peer}
    tools: Mapping[str, str] = {**tool_versions(), **pins}
    return Report(f"peers_{scenario}", title, Circumstances.observe(seed=wanted.seed, packages=PACKAGES, tools=tools))


def set_up_notes(wanted: Wanted, *, workers: str) -> list[str]:
    """Return the notes that hold for every scenario."""
    shipped = "what --unpacked named, not the wheel" if wanted.wheel and wanted.wheel.is_given else SHIPPED
    ours = (
        f"warmgate: {shipped}, with a key, five limits, prefix_aware, metrics "
        "and a request log on, which goes to a file. Others log warnings only, and have no keys and no limits."
    )
    set_up = (
        "One core for the proxy at work (the others idle), the other for workers and load. All before the same "
        f"workers: {workers}. By turns: every round has everybody in it."
    )
    slow = [entrant.name for entrant in wanted.entrants if entrant.is_slow]
    asking = "vllm-router cache_aware"
    notes = [set_up, ours]
    if asking in {entrant.name for entrant in wanted.entrants}:
        notes.append(f"{asking} asks a worker for the tokens of every prompt: some of what it takes is the stub's.")
    return notes + ([f"Asked for less, where a note says so: {', '.join(slow)}."] if slow else [])


def say(what: str) -> None:
    """Report progress on standard error."""
    print(what, file=sys.stderr, flush=True)


def _version(peer: str) -> str:
    pins = PEERS[peer].requirements or PEERS[peer].whole
    return pins[0].partition("==")[2]


Scenario = Callable[[Setting], Report]
"""Measures and reports. Raises `ChildFailedError` where it could not run."""
