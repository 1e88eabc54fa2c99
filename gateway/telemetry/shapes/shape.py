"""The shape of a recorded request, and the steps of its prompt."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Shape:
    """A recorded request, without its text."""

    at: float
    """Time of arrival in Unix seconds."""
    team: str | None
    model: str
    strategy: str | None
    worker: str | None
    """Worker that answered, or None if a fallback answered."""
    session: int
    """Digest of the session that the caller named, or 0 if the caller named no session."""
    ttft_s: float | None
    """Seconds from arrival to the first byte of a stream, or None if the answer was not streamed."""
    duration_s: float
    queued_s: float
    """Seconds that the request waited in the gateway for a free worker."""
    prompt_tokens: int
    cached_tokens: int | None
    """Prompt tokens that came out of a cache, or None if the engine did not report them."""
    output_tokens: int
    streams: bool
    prompt_bytes: int
    tokens_per_step: int
    """Tokens of one step of the prompt, or 0 if steps are measured in bytes."""
    bytes_per_step: int
    steps: "Steps" = field(repr=False)


@dataclass(frozen=True, slots=True)
class Run:
    """Steps that one request added: *count* numbers from *first* on, after *depth* steps that end with *parent*."""

    first: int
    count: int
    parent: int
    depth: int


class RunTable:
    """Runs of one gateway process by their numbers."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._runs: list[Run] = []

    def add(self, run: Run) -> None:
        """Add *run*, whose numbers are higher than all before."""
        if run.count and (not self._firsts or run.first > self._firsts[-1]):
            self._firsts.append(run.first)
            self._runs.append(run)

    def find(self, number: int) -> Run | None:
        """Return the run that contains *number*, or None if it was in a file that was deleted."""
        at = bisect_right(self._firsts, number) - 1
        if at < 0:
            return None
        run = self._runs[at]
        return run if number < run.first + run.count else None


class Steps:
    """Steps of one prompt: *count* steps that end with the step *last*."""

    __slots__ = ("count", "last", "parent", "shared", "table")

    def __init__(self, table: RunTable, *, parent: int, shared: int, first: int, new: int) -> None:
        self.table = table
        self.parent = parent
        """Number of the last step that was known before this prompt, or 0."""
        self.shared = shared
        self.count = shared + new
        self.last = first + new - 1 if new else parent

    def spans(self) -> Sequence[tuple[int, int]]:
        """Return the consecutive numbers of the prompt, as pairs of the depth at which they begin and the first number.

        If a file was deleted, the steps in it get numbers that only prompts with the same steps share.
        """
        found: list[tuple[int, int]] = []
        number, depth = self.last, self.count
        while depth > 0:
            run = self.table.find(number)
            if run is None:
                # Numbers of one run differ by as much as their depths.
                found.append((0, number - depth + 1))
                break
            begin = depth - (number - run.first) - 1
            found.append((begin, run.first))
            number, depth = run.parent, begin
        found.reverse()
        return found
