"""ThunderAgent's admission of whole programs: arXiv 2602.13692, and the page Scheduler of its wiki."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.policies.at_once import Rule
from benchmarks.policies.desk import Desk
from benchmarks.policies.distinct_blocks import DistinctBlocks
from benchmarks.policies.index import Index
from benchmarks.policies.ties import lowest
from replay.policy import Ask, Setup, Usage

INTERVAL_S = 5.0
"""Time between two checks of the scheduler."""
PROGRAM_TOKENS = 100
"""Room that is kept for the next answer of each program."""
LONGEST_PAUSE_S = 1800.0
"""A request that has waited so long is sent, whether there is room or not."""


@dataclass(slots=True, eq=False)
class Program:
    """A session: an agent that asks, calls a tool, and asks again."""

    blocks: tuple[int, ...] = ()
    """Blocks of its last prompt."""
    tokens: int = 0
    """Tokens of its last prompt and of the answer to that."""
    worker: int | None = None
    """Worker that keeps room for it; None while it is paused."""
    prompts: int = 0
    under_way: int = 0
    waiting: list[Ask] = field(default_factory=list)
    """Requests that it sent while it was paused."""
    waits_since: float = 0.0
    is_marked: bool = False
    """It pauses as soon as its answer ends; no room is kept for it any more."""

    @property
    def is_reasoning(self) -> bool:
        """Whether it has asked; otherwise a tool is at work."""
        return bool(self.under_way or self.waiting)


class Rooms:
    """The room in each worker's cache, and the programs that it is kept for. Shared blocks count once."""

    def __init__(self, setup: Setup) -> None:
        self._block_tokens = setup.block_tokens
        self._capacity = setup.capacity_blocks * setup.block_tokens
        self._blocks = DistinctBlocks(setup.workers)
        self._own_tokens = [0] * setup.workers
        self.programs: list[dict[Program, None]] = [{} for _ in range(setup.workers)]

    def enter(self, program: Program, worker: int) -> None:
        self.programs[worker][program] = None
        self._blocks.add(worker, program.blocks)
        self._own_tokens[worker] += self._own(program)

    def leave(self, program: Program, worker: int) -> None:
        del self.programs[worker][program]
        self._blocks.discard(worker, program.blocks)
        self._own_tokens[worker] -= self._own(program)

    def used(self, worker: int) -> int:
        """Return the tokens of all programs of *worker*."""
        return self._blocks.count(worker) * self._block_tokens + self._own_tokens[worker]

    def free(self, worker: int) -> int:
        """Return the tokens for which there is room; negative where programs need more than there is."""
        return self._capacity - self.used(worker)

    def needed(self, program: Program) -> list[int]:
        """Return the tokens that *program* needs at each worker, beside what is there."""
        whole = len(program.blocks) * self._block_tokens + self._own(program)
        return [whole - hit * self._block_tokens for hit in self._blocks.leading(program.blocks)]

    def _own(self, program: Program) -> int:
        """Return the tokens that no other program can share, with the room for the next answer."""
        return program.tokens - len(program.blocks) * self._block_tokens + PROGRAM_TOKENS


class ThunderAgent:
    """A `Policy` that keeps the programs under way within the caches, and pauses the others between two prompts.

    A program stays with its worker. A new one goes where the fewest tokens are in use, if it has room there and none
    waits. Every five seconds paused programs enter, those that wait for an answer before new ones and both before those
    that do not, and each where there is most room; then workers that are too full pause programs, those without a
    request before the others, the smallest first. One that has a request pauses after its answer.

    A program that says so ends with an answer. A request without a session is placed by *otherwise* at once.
    """

    def __init__(self, setup: Setup, index: Index, otherwise: Rule) -> None:
        self._desk = Desk(setup, index)
        self._setup = setup
        self._otherwise = otherwise
        self._rooms = Rooms(setup)
        self._programs: dict[str, Program] = {}
        self._paused: dict[Program, None] = {}
        self._released: list[tuple[Ask, int]] = []
        self._next_check = INTERVAL_S

    def submit(self, ask: Ask, now: float) -> None:
        self._check_until(now)
        if ask.session is None:
            self._send(ask, self._otherwise.choose(self._desk.choice(ask, now)), now)
            return
        program = self._programs.setdefault(ask.session, Program())
        worker = self._worker_for(program, ask)
        program.prompts += 1
        if worker is not None:
            program.under_way += 1
            self._send(ask, worker, now)
            return
        if not program.waiting:
            program.waits_since = now
        program.waiting.append(ask)

    def poll(self, now: float) -> list[tuple[Ask, int]]:
        self._check_until(now)
        released, self._released = self._released, []
        return released

    def next_poll_at(self, now: float) -> float | None:  # noqa: ARG002
        return self._next_check if any(program.waiting for program in self._paused) else None

    def first_token(self, ask: Ask, now: float) -> None:
        self._desk.first_token(ask, now)

    def finished(self, ask: Ask, usage: Usage, now: float) -> None:
        self._check_until(now)
        self._desk.finished(ask)
        if ask.session is None:
            return
        program = self._programs[ask.session]
        program.under_way -= 1
        self._resize(program, ask, usage.completion_tokens)
        if usage.ends_session:
            del self._programs[ask.session]
            self._leave(program)
        elif program.is_marked and not program.is_reasoning:
            self._pause(program)

    def stored(self, worker: int, blocks: Sequence[int], parent: int | None, now: float) -> None:  # noqa: ARG002
        self._desk.stored(worker, blocks)

    def removed(self, worker: int, blocks: Sequence[int], now: float) -> None:  # noqa: ARG002
        self._desk.removed(worker, blocks)

    def _worker_for(self, program: Program, ask: Ask) -> int | None:
        """Return where *program* asks; None while it is paused, as it is from now on if it finds no room."""
        self._resize(program, ask, 0)
        if program.prompts:
            return program.worker
        program.worker = self._place(program)
        if program.worker is None:
            self._paused[program] = None
        else:
            self._rooms.enter(program, program.worker)
        return program.worker

    def _place(self, program: Program) -> int | None:
        """Return the worker for a new *program*; None if it must wait."""
        if self._paused:
            return None
        needed = self._rooms.needed(program)
        fitting = [worker for worker, tokens in enumerate(needed) if tokens <= self._rooms.free(worker)]
        if not fitting:
            return None
        return fitting[lowest([self._rooms.used(worker) for worker in fitting], self._setup.rng)]

    def _resize(self, program: Program, ask: Ask, completion_tokens: int) -> None:
        worker = None if program.is_marked else program.worker
        if worker is not None:
            self._rooms.leave(program, worker)
        program.blocks, program.tokens = ask.blocks, ask.prompt_tokens + completion_tokens
        if worker is not None:
            self._rooms.enter(program, worker)

    def _send(self, ask: Ask, worker: int, now: float) -> None:
        self._desk.send(self._desk.choice(ask, now), worker)
        self._released.append((ask, worker))

    def _check_until(self, now: float) -> None:
        while self._next_check <= now:
            at, self._next_check = self._next_check, self._next_check + INTERVAL_S
            self._resume(at)
            for worker in range(self._setup.workers):
                self._make_room(worker)

    def _resume(self, now: float) -> None:
        late = [each for each in self._paused if each.waiting and now - each.waits_since >= LONGEST_PAUSE_S]
        for program in late:
            self._enter(program, self._emptiest(), now)
        room = sum(max(0, self._rooms.free(worker)) for worker in range(self._setup.workers))
        chosen = []
        for program in sorted(self._paused, key=_urgency):
            needed = min(self._rooms.needed(program))
            if needed <= room:
                chosen.append(program)
                room -= needed
        for program in sorted(chosen, key=lambda each: -each.tokens):
            worker = self._emptiest()
            if self._rooms.needed(program)[worker] <= self._rooms.free(worker):
                self._enter(program, worker, now)

    def _emptiest(self) -> int:
        return lowest([-self._rooms.free(worker) for worker in range(self._setup.workers)], self._setup.rng)

    def _enter(self, program: Program, worker: int, now: float) -> None:
        del self._paused[program]
        program.worker = worker
        self._rooms.enter(program, worker)
        waiting, program.waiting = program.waiting, []
        program.under_way += len(waiting)
        for ask in waiting:
            self._send(ask, worker, now)

    def _make_room(self, worker: int) -> None:
        smallest_first = sorted(self._rooms.programs[worker], key=lambda each: (each.is_reasoning, each.tokens))
        for program in smallest_first:
            if self._rooms.free(worker) >= 0:
                return
            if program.is_reasoning:
                self._rooms.leave(program, worker)
                program.is_marked = True
            else:
                self._pause(program)

    def _pause(self, program: Program) -> None:
        self._leave(program)
        self._paused[program] = None

    def _leave(self, program: Program) -> None:
        if program.worker is not None and not program.is_marked:
            self._rooms.leave(program, program.worker)
        program.worker, program.is_marked = None, False


def _urgency(program: Program) -> tuple[int, int]:
    """Return the place of a paused program among those that may resume: the lowest first."""
    if program.prompts == 1:
        return 1, program.tokens
    return 0 if program.is_reasoning else 2, program.tokens
