"""Requests, candidates and fleets for tests: what a test does not name is plain and the same everywhere."""

import random

from cache_index import CacheIndex, Hasher, Prefix, RadixTree, WorkerId
from routing.booking import Booking, Ending, Outcome
from routing.candidate import Candidate, Load
from routing.dispatcher import Dispatch, Dispatcher, Immediate
from routing.fleet import Fleet
from routing.request import Request
from routing.strategies.by_name import StrategiesByName
from routing.strategy import Strategy

A, B, C = WorkerId("a"), WorkerId("b"), WorkerId("c")
BLOCK_BYTES = 64
HASHER = Hasher(bytes(32), block_bytes=BLOCK_BYTES)

ANSWERED = Outcome(Ending.ANSWERED)
REFUSED = Outcome(Ending.REFUSED)
FAILED = Outcome(Ending.FAILED)
ABORTED = Outcome(Ending.ABORTED)


def prompt(letters: str) -> Prefix:
    """A prefix with one block per letter."""
    return HASHER.prefix("".join(letter * BLOCK_BYTES for letter in letters).encode())


def a_request(
    letters: str = "",
    *,
    prompt_tokens: float | None = None,
    output_tokens: float = 100.0,
    session: str | None = None,
    streams: bool = True,
    reads_cache: bool = True,
    pinned: WorkerId | None = None,
    strategy: str | None = None,
    exact: tuple[Prefix, ...] = (),
    allowed: frozenset[WorkerId] | None = None,
) -> Request:
    """A prompt of one block of 64 bytes, 16 tokens, per letter."""
    return Request(
        prompt(letters),
        len(letters) * BLOCK_BYTES,
        len(letters) * 16.0 if prompt_tokens is None else prompt_tokens,
        output_tokens,
        session=session,
        streams=streams,
        reads_cache=reads_cache,
        pinned=pinned,
        exact=exact,
        strategy=strategy,
        allowed=allowed,
    )


def a_candidate(
    worker: str,
    *,
    hit_tokens: float = 0.0,
    hit_blocks: int | None = None,
    backlog_s: float = 0.0,
    pending: int = 0,
    decodes: int = 0,
    busy_share: float = 0.0,
    prefill_s_per_token: float = 0.001,
    decode_s_per_token: float = 0.0005,
    admits: bool = True,
) -> Candidate:
    """An idle worker that prefills 1,000 tokens per second, with a hit of one block per 16 tokens."""
    return Candidate(
        WorkerId(worker),
        int(hit_tokens) // 16 if hit_blocks is None else hit_blocks,
        hit_tokens,
        Load(
            backlog_s=backlog_s,
            pending=pending,
            decodes=decodes,
            busy_share=busy_share,
            prefill_overhead_s=0.01,
            prefill_s_per_token=prefill_s_per_token,
            decode_s_per_token=decode_s_per_token,
        ),
        admits,
    )


def rates_of(load: Load) -> tuple[float, float, float]:
    """The rates in a load."""
    return load.prefill_overhead_s, load.prefill_s_per_token, load.decode_s_per_token


def an_index() -> RadixTree:
    return RadixTree(max_bytes=10_000_000, default_capacity=10_000)


def a_fleet(*workers: WorkerId, index: CacheIndex | None = None, lease_s: float = 600.0) -> Fleet:
    """A fleet of *workers* at time 0, believed to prefill 1,000 tokens per second."""
    fleet = Fleet(
        an_index() if index is None else index, block_bytes=BLOCK_BYTES, prefill_tokens_per_s=1000.0, lease_s=lease_s
    )
    fleet.set_workers(workers, 0.0)
    return fleet


def book(fleet: Fleet, request: Request, now: float, on: WorkerId | None = None) -> Booking:
    """*request* booked on the candidate *on*, or on the first."""
    candidate = next(c for c in fleet.candidates(request, now) if on in {None, c.worker})
    booking = fleet.bookings.book(request, candidate, now)
    assert booking is not None
    return booking


def release_all(dispatcher: Dispatcher, *requests: Request, now: float = 0.0) -> list[Dispatch]:
    """Dispatches of one poll after *requests* were submitted."""
    for request in requests:
        dispatcher.submit(request, now)
    return dispatcher.poll(now)


def dispatch(fleet: Fleet, strategy: Strategy, request: Request, now: float) -> Booking:
    """Submit *request* for immediate dispatch and hand out its booking."""
    (dispatch,) = release_all(Immediate(fleet, only(strategy)), request, now=now)
    assert dispatch.booking is not None
    return dispatch.booking


def only(strategy: Strategy, name: str = "prefix_aware") -> StrategiesByName:
    """*strategy*, under *name* and any other."""
    return StrategiesByName(name, lambda _: strategy)


def order_of(strategy: Strategy, request: Request, *candidates: Candidate) -> str:
    """The workers' names, best first."""
    return "".join(candidate.worker for candidate in strategy.rank(request, candidates))


def seeded(seed: int = 0) -> random.Random:
    return random.Random(seed)
