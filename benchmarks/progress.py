"""Progress of a long run, on standard error."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")
SECONDS_BETWEEN_LINES = 30.0
"""Seconds between two lines if standard error is a file, in which each update is a separate line."""


def progress(steps: Iterable[T], what: str, total: int) -> Iterator[T]:
    """Yield each of *steps*, of which there are *total*, and show a progress bar with the remaining time."""
    pause_s = 0.5 if sys.stderr.isatty() else SECONDS_BETWEEN_LINES
    yield from tqdm(steps, desc=what, total=total, file=sys.stderr, mininterval=pause_s, maxinterval=pause_s)
