"""Ended requests are told of together, and each once."""

import asyncio

from gateway.endings import SETTLE_S, EndedRequest, Endings
from tests.gateway.examples import an_exchange


class Notes:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[bytes, float]] = []
        self.settled = 0
        self.heard = asyncio.Event()

    def observe(self, endings: list[EndedRequest]) -> None:
        self.told += [(ending.exchange.request_id, ending.at) for ending in endings]
        self.settled += 1
        self.heard.set()


async def test_every_observer_is_told_of_every_ending_once() -> None:
    """In their order, with the time of the end, and all at once."""
    notes = [Notes(), Notes()]
    endings = Endings(notes)
    for i in range(3):
        endings.add(an_exchange(request_id=b"r-%d" % i), 100.0 + i)

    assert [] == notes[0].told

    endings.settle()
    endings.settle()

    for note in notes:
        assert [(b"r-0", 100.0), (b"r-1", 101.0), (b"r-2", 102.0)] == note.told
        assert 1 == note.settled


async def test_an_ending_is_told_of_within_a_twentieth_of_a_second() -> None:
    """Without anybody asking, and so is the next one after it."""
    notes = Notes()
    endings = Endings([notes])
    for count in (1, 2):
        notes.heard.clear()
        endings.add(an_exchange(), 100.0)
        async with asyncio.timeout(20):
            await notes.heard.wait()

        assert count == len(notes.told)
    assert SETTLE_S == 0.05


async def test_settling_in_between_loses_and_repeats_nothing() -> None:
    """The timer of the first ending finds the second one, or nothing."""
    notes = Notes()
    endings = Endings([notes])
    endings.add(an_exchange(request_id=b"r-1"), 1.0)
    endings.settle()
    endings.add(an_exchange(request_id=b"r-2"), 2.0)
    notes.heard.clear()
    await notes.heard.wait()

    assert [(b"r-1", 1.0), (b"r-2", 2.0)] == notes.told
    assert 2 == notes.settled
