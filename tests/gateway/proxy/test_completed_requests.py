"""Completed requests are handed over in batches, each once."""

import asyncio

from gateway.proxy.completed_requests import MAX_BATCH, SETTLE_S, CompletedRequest, CompletedRequests
from tests.gateway.examples import an_exchange


class Notes:
    """Records the requests that it receives."""

    def __init__(self) -> None:
        self.seen: list[tuple[bytes, float]] = []
        self.settled = 0
        self.heard = asyncio.Event()

    def observe(self, completed_requests: list[CompletedRequest]) -> None:
        self.seen += [(ending.exchange.request_id, ending.at) for ending in completed_requests]
        self.settled += 1
        self.heard.set()


async def test_every_observer_gets_each_request_once() -> None:
    """They come as one batch, in order, with the time of their end."""
    notes = [Notes(), Notes()]
    completed_requests = CompletedRequests(notes)
    for i in range(3):
        completed_requests.add(an_exchange(request_id=b"r-%d" % i), 100.0 + i)

    assert [] == notes[0].seen

    completed_requests.settle()
    completed_requests.settle()

    for note in notes:
        assert [(b"r-0", 100.0), (b"r-1", 101.0), (b"r-2", 102.0)] == note.seen
        assert 1 == note.settled


async def test_a_batch_is_handed_over_within_its_delay() -> None:
    """A timer does it, again for the next batch."""
    notes = Notes()
    completed_requests = CompletedRequests([notes])
    for count in (1, 2):
        notes.heard.clear()
        completed_requests.add(an_exchange(), 100.0)
        async with asyncio.timeout(60):
            await notes.heard.wait()

        assert count == len(notes.seen)
    assert SETTLE_S == 0.05


async def test_settling_in_between_loses_and_repeats_nothing() -> None:
    """The timer finds the next request, or nothing."""
    notes = Notes()
    completed_requests = CompletedRequests([notes])
    completed_requests.add(an_exchange(request_id=b"r-1"), 1.0)
    completed_requests.settle()
    completed_requests.add(an_exchange(request_id=b"r-2"), 2.0)
    notes.heard.clear()
    await notes.heard.wait()

    assert [(b"r-1", 1.0), (b"r-2", 2.0)] == notes.seen
    assert 2 == notes.settled


async def test_a_full_batch_is_handed_over_at_once() -> None:
    """The rest waits for the timer."""
    notes = Notes()
    completed_requests = CompletedRequests([notes])
    for i in range(MAX_BATCH + 1):
        completed_requests.add(an_exchange(request_id=b"r-%d" % i), 1.0)

    assert [(b"r-%d" % i, 1.0) for i in range(64)] == notes.seen
    assert 1 == notes.settled

    notes.heard.clear()
    async with asyncio.timeout(60):
        await notes.heard.wait()

    assert (b"r-64", 1.0) == notes.seen[-1]
    assert 65 == len(notes.seen)
    assert 2 == notes.settled
