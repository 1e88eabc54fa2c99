"""One figure of one replay at a time, on as many processes as there are to be."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.progress import progress
from benchmarks.replay.entrant import ENTRANTS
from replay.run import Run
from replay.setting import Setting
from replay.summary import Summary
from replay.trace import Trace, read_trace

TTFT_P90_LIMIT_S = 4.0
SPEED_STEP = 0.02
SPEED_GROWTH = 1.25  # Not more: far beyond what can be borne, a replay holds thousands of requests and takes long.
HIGHEST_SPEED = 64.0  # Beyond it a trace is one burst, and too short for a search.

Task = TypeVar("Task")
Figure = TypeVar("Figure")


@dataclass(frozen=True, slots=True)
class Job:
    """A setting, who is tried in it, and with which seed."""

    setting: Setting
    strategy: str
    seed: int


def summary_of(job: Job) -> Summary:
    """One replay.

    Raises:
        OSError: the trace cannot be read.
        EngineError: a prompt does not fit into a cache.
        ValueError: it is no trace, or nothing is left of it.
    """
    setting = job.setting
    entrant = ENTRANTS[job.strategy]
    part = trace_of(setting.trace).part(setting.skip, setting.limit)
    return Summary.of(Run(part, setting, entrant, seed=job.seed).answers(), entrant.workers(setting))


def speed_of(job: Job) -> float:
    """The highest speed at which TTFT p90 stays within `TTFT_P90_LIMIT_S`; raises as `summary_of`."""

    def passes(speed: float) -> bool:
        at_speed = dataclasses.replace(job, setting=dataclasses.replace(job.setting, speed=speed))
        return summary_of(at_speed).ttft_p90_s <= TTFT_P90_LIMIT_S

    return highest_speed(passes)


def highest_speed(passes: Callable[[float], bool]) -> float:
    """The highest speed that *passes*, to within a step, where all below it pass as well; 0 if none does."""
    low, high = 0.0, 1.0
    while high < HIGHEST_SPEED and passes(high):
        low, high = high, SPEED_GROWTH * high
    while high - low > SPEED_STEP:
        middle = (low + high) / 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


@functools.lru_cache(maxsize=8)
def trace_of(path: Path) -> Trace:
    """The trace in *path*, read once in each process; raises as `read_trace`."""
    return read_trace(path)


def figures_of(figure: Callable[[Job], Figure], jobs: Sequence[Job], *, processes: int) -> list[Figure]:
    """The *figure* of each of *jobs*, in their order; raises what the first of them raises."""
    titles = {job.setting.title: None for job in jobs}
    what = next(iter(titles)) if len(titles) == 1 else f"{len(titles)} settings"
    return each_of(figure, jobs, what, processes=processes)


def each_of(figure: Callable[[Task], Figure], tasks: Sequence[Task], what: str, *, processes: int) -> list[Figure]:
    """The *figure* of each of *tasks*, in their order, with the progress of *what*; raises what the first raises."""
    if processes == 1:
        return list(progress(map(figure, tasks), what, len(tasks)))
    with ProcessPoolExecutor(processes) as pool:
        return list(progress(pool.map(figure, tasks), what, len(tasks)))
