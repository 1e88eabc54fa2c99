"""Progress of a long run, on standard error."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")
SECONDS_BETWEEN_LINES = 30.0
"""Time between two lines where standard error is a file: each update is a line of its own."""


def progress(steps: Iterable[T], what: str, total: int) -> Iterator[T]:
    """Each of *steps*, of which there are *total*, with a bar that says how many are done, and how long yet."""
    pause_s = 0.5 if sys.stderr.isatty() else SECONDS_BETWEEN_LINES
    yield from tqdm(steps, desc=what, total=total, file=sys.stderr, mininterval=pause_s, maxinterval=pause_s)
