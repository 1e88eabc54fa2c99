"""What a fleet's observer reports becomes numbered entries; a fleet of its own makes the bookings."""

from gateway.workers.replicas import outbox as module
from gateway.workers.replicas.outbox import BookingOutbox
from gateway.workers.replicas.wire import Began, Booked, BookingSnapshot, EntryBatch, Released
from routing.booking import Ending, Outcome
from routing.fleet import Fleet
from tests.routing.examples import ABORTED, BLOCK_BYTES, FAILED, A, B, a_request, an_index, book, prompt

ANSWERED = Outcome(Ending.ANSWERED, completion_tokens=7)


def watched(outbox: BookingOutbox, *, lease_s: float = 600.0) -> Fleet:
    fleet = Fleet(
        an_index(),
        block_bytes=BLOCK_BYTES,
        prefill_tokens_per_s=1000.0,
        lease_s=lease_s,
        observer=outbox.observer("tiny"),
    )
    fleet.set_workers([A, B], 0.0)
    return fleet


def heard(*, max_entries: int = 100) -> BookingOutbox:
    outbox = BookingOutbox(max_entries=max_entries)
    outbox.is_heard = True
    return outbox


def taken(outbox: BookingOutbox) -> EntryBatch:
    batch = outbox.take()
    assert batch is not None
    return batch


def test_a_request_is_reported_from_booking_to_end() -> None:
    """With the number of its booking as its name."""
    outbox = heard()
    fleet = watched(outbox)
    booking = book(fleet, a_request("abc", output_tokens=50.0), 0.0, A)
    fleet.bookings.first_byte(booking, 1.0)
    fleet.bookings.first_byte(booking, 1.1)
    fleet.bookings.release(booking, ANSWERED, 2.0)

    assert outbox.woken.is_set()
    assert EntryBatch(
        1,
        (
            Booked(1, "tiny", "a", 48.0, 50.0, True, hashes=prompt("abc").hashes),
            Began(1),
            Released(1, keep=True, completion_tokens=7),
        ),
    ) == taken(outbox)
    assert outbox.take() is None
    assert (3, 3, 0) == (outbox.last, outbox.sent, len(outbox))


def test_what_was_not_computed_is_not_kept() -> None:
    """Its prompt is taken back, here and there; that of a caller who left after the first byte is not."""
    outbox = heard()
    fleet = watched(outbox)
    one, other = book(fleet, a_request("abc"), 0.0, A), book(fleet, a_request("xyz"), 0.0, B)
    fleet.bookings.first_byte(other, 1.0)
    fleet.bookings.release(one, FAILED, 2.0)
    fleet.bookings.release(other, ABORTED, 2.0)

    assert (Released(1, keep=False), Released(2, keep=True)) == taken(outbox).entries[-2:]


def test_a_prompt_that_is_not_cached_has_no_hashes() -> None:
    """It is load all the same."""
    outbox = heard()
    request = a_request("abc", exact=(prompt("ab"),))
    fleet = watched(outbox)
    book(fleet, type(request)(request.prefix, 192, 48.0, 100.0, writes_cache=False, exact=request.exact), 0.0, A)

    assert (Booked(1, "tiny", "a", 48.0, 100.0, True),) == taken(outbox).entries


def test_while_no_one_listens_nothing_is_kept_but_counted() -> None:
    """A new replica sees that something is missing, and gets a snapshot."""
    outbox = BookingOutbox()
    fleet = watched(outbox)
    booking = book(fleet, a_request("abc"), 0.0, A)
    fleet.bookings.release(book(fleet, a_request("x"), 0.0, B), ANSWERED, 1.0)
    fleet.bookings.first_byte(booking, 1.0)
    outbox.is_heard = True

    assert not outbox.woken.is_set()
    assert outbox.take() is None
    assert (4, 4, 0) == (outbox.last, outbox.sent, outbox.dropped)
    assert (
        BookingSnapshot(4, (Booked(1, "tiny", "a", 48.0, 100.0, True, has_begun=True, hashes=prompt("abc").hashes),))
        == outbox.snapshot()
    )


def test_the_oldest_entries_go_when_no_one_takes_them() -> None:
    """They are counted, and the numbers of the others show the gap."""
    outbox = heard(max_entries=3)
    fleet = watched(outbox)
    for _ in range(5):
        book(fleet, a_request("abc"), 0.0)

    batch = taken(outbox)

    assert (3, 2) == (batch.first, outbox.dropped)
    assert [3, 4, 5] == [entry.number for entry in batch.entries]


def test_a_buffer_has_a_limit_in_bytes_too() -> None:
    """Prompts of a hundred thousand blocks, of 800 kB each: it keeps no more than 16 MiB of them."""
    outbox = heard(max_entries=10**6)
    fleet = watched(outbox)
    long = type(prompt("a"))(bytes(range(8)) * 100_000)
    for _ in range(30):
        book(fleet, type(a_request())(long, 1, 1.0, 1.0), 0.0, A)
    kept = 30 - outbox.dropped

    assert module.MAX_BYTES // 801_000 <= kept <= module.MAX_BYTES // 800_000
    assert 1 == len(taken(outbox).entries), "a message has a limit of its own, but holds one at least"


def test_a_message_holds_at_most_256_entries() -> None:
    """The rest is taken next."""
    outbox = heard(max_entries=1000)
    fleet = watched(outbox)
    for _ in range(300):
        book(fleet, a_request(), 0.0)

    assert [(1, 256), (257, 44)] == [(batch.first, len(batch.entries)) for batch in (taken(outbox), taken(outbox))]


def test_a_snapshot_reports_the_load_of_all_and_the_latest_prompts() -> None:
    """Beyond 4 MiB of hashes the oldest prompts are left out."""
    outbox = heard()
    fleet = watched(outbox)
    long = type(prompt("a"))(bytes(range(8)) * 100_000)
    for _ in range(8):
        book(fleet, type(a_request())(long, 1, 1.0, 1.0), 0.0, A)
    bookings = outbox.snapshot().bookings

    assert [1, 2, 3, 4, 5, 6, 7, 8] == [booked.number for booked in bookings]
    assert [False, False, True, True, True, True, True, True] == [bool(booked.hashes) for booked in bookings]


def test_what_was_taken_for_lost_ends_once() -> None:
    """Its lease was over; that it ended all the same is no news."""
    outbox = heard()
    fleet = watched(outbox, lease_s=10.0)
    booking = book(fleet, a_request(), 0.0, A)
    fleet.tick(20.0)
    fleet.bookings.release(booking, ANSWERED, 30.0)

    assert [Booked, Released] == [type(entry) for entry in taken(outbox).entries]


def test_a_first_byte_that_comes_after_the_end_is_no_news() -> None:
    """Bookings from before the observer are ignored, too."""
    outbox = heard()
    fleet = watched(outbox)
    booking = book(fleet, a_request(), 0.0, A)
    fleet.bookings.release(booking, ANSWERED, 1.0)
    outbox.first_byte(booking)

    assert 2 == len(taken(outbox).entries)


def test_when_no_one_listens_any_more_the_rest_is_of_no_use() -> None:
    """It was not dropped for want of room."""
    outbox = heard()
    fleet = watched(outbox)
    book(fleet, a_request(), 0.0, A)
    outbox.forget()

    assert outbox.take() is None
    assert (False, 0, 1) == (outbox.is_heard, outbox.dropped, outbox.sent)


def test_entries_that_reached_no_one_are_counted() -> None:
    """They were taken, and the store went away."""
    outbox = heard()
    outbox.lost(3)

    assert 3 == outbox.dropped
