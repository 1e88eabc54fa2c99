"""Reservations that share a call, and the callers of a call that fails."""

import asyncio
from collections.abc import Sequence

from gateway.protocol.errors import StoreUnavailable
from gateway.tenancy.quota.batched_reservations import BatchedReservations, Reservable


class Store:
    """A store whose calls end when the test lets them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[str]]] = []
        self.ends: list[asyncio.Future[None]] = []

    async def send(self, team: str, reservables: Sequence[Reservable]) -> list[list[float]]:
        self.calls.append((team, [name for name, _ in reservables]))
        self.ends.append(asyncio.get_running_loop().create_future())
        await self.ends[-1]
        return [[1.0, float(content)] for _, content in reservables]


async def begin(
    batches: BatchedReservations, team: str, numbers: Sequence[int]
) -> list["asyncio.Task[Sequence[float]]"]:
    """Ask for reservations in one turn, and let them be sent."""
    asking = [asyncio.create_task(batches.ask(team, (f"r{number}", b"%d" % number))) for number in numbers]
    await settle()
    return asking


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_reservations_of_one_turn_share_a_call() -> None:
    """Each gets its own answer."""
    store = Store()
    asking = await begin(BatchedReservations(store.send), "blue", [1, 2, 3])

    assert [("blue", ["r1", "r2", "r3"])] == store.calls
    store.ends[0].set_result(None)
    assert [[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]] == await asyncio.gather(*asking)


async def test_reservations_that_come_during_a_call_share_the_next() -> None:
    """A team has one call at a time."""
    store = Store()
    batches = BatchedReservations(store.send)
    asking = [
        *await begin(batches, "blue", [1]),
        *await begin(batches, "blue", [2]),
        *await begin(batches, "blue", [3]),
    ]
    store.ends[0].set_result(None)
    await settle()

    assert [("blue", ["r1"]), ("blue", ["r2", "r3"])] == store.calls
    store.ends[1].set_result(None)
    assert 3 == len(await asyncio.gather(*asking))
    asking = await begin(batches, "blue", [4])
    store.ends[2].set_result(None)
    assert [[1.0, 4.0]] == await asyncio.gather(*asking)


async def test_teams_do_not_wait_for_each_other() -> None:
    """The limits of two teams are in different keys."""
    store = Store()
    batches = BatchedReservations(store.send)
    blue, red = await begin(batches, "blue", [1]), await begin(batches, "red", [2])

    store.ends[1].set_result(None)
    assert [[1.0, 2.0]] == await asyncio.gather(*red)
    store.ends[0].set_result(None)
    assert [[1.0, 1.0]] == await asyncio.gather(*blue)


async def test_a_call_has_at_most_32_reservations() -> None:
    """A longer call would delay other gateways."""
    store = Store()
    asking = await begin(BatchedReservations(store.send), "blue", range(40))
    store.ends[0].set_result(None)
    await settle()
    store.ends[1].set_result(None)
    await asyncio.gather(*asking)

    assert [32, 8] == [len(names) for _, names in store.calls]


async def test_the_reservation_of_a_caller_who_left_is_not_sent() -> None:
    """If it was sent already, the others of its call get their answers."""
    store = Store()
    batches = BatchedReservations(store.send)
    first = await begin(batches, "blue", [1, 2])
    second = await begin(batches, "blue", [3, 4, 5])
    first[1].cancel()
    second[0].cancel()
    await settle()
    store.ends[0].set_result(None)
    await settle()
    store.ends[1].set_result(None)

    assert [[1.0, 1.0], [1.0, 4.0], [1.0, 5.0]] == await asyncio.gather(first[0], *second[1:])
    assert [["r1", "r2"], ["r4", "r5"]] == [names for _, names in store.calls]


async def test_the_others_are_sent_again_if_the_sender_leaves() -> None:
    """Its call may have reached the store, which reserves nothing twice."""
    store = Store()
    batches = BatchedReservations(store.send)
    asking = await begin(batches, "blue", [1, 2, 3])
    asking[0].cancel()
    await settle()
    store.ends[1].set_result(None)

    assert [[1.0, 2.0], [1.0, 3.0]] == await asyncio.gather(*asking[1:])
    assert [["r1", "r2", "r3"], ["r2", "r3"]] == [names for _, names in store.calls]


async def test_the_next_sender_may_leave_before_it_sends() -> None:
    """The one behind it sends, and without any, the next request begins again."""
    store = Store()
    batches = BatchedReservations(store.send)
    first = await begin(batches, "blue", [1])
    others = await begin(batches, "blue", [2, 3])
    store.ends[0].set_result(None)
    await first[0]
    others[0].cancel()
    await settle()
    assert [["r1"], ["r3"]] == [names for _, names in store.calls]

    others[1].cancel()
    await settle()
    again = await begin(batches, "blue", [4])
    store.ends[2].set_result(None)
    assert [[1.0, 4.0]] == await asyncio.gather(*again)


async def test_a_failed_call_fails_all_that_wait() -> None:
    """None of them waits for a second failure, and later ones are sent."""
    store = Store()
    batches = BatchedReservations(store.send)
    asking = [*await begin(batches, "blue", [1]), *await begin(batches, "blue", [2])]
    store.ends[0].set_exception(StoreUnavailable("The store does not answer"))
    results = await asyncio.gather(*asking, return_exceptions=True)

    assert all(isinstance(each, StoreUnavailable) for each in results)
    assert [("blue", ["r1"])] == store.calls
    again = await begin(batches, "blue", [3])
    store.ends[1].set_result(None)
    assert [[1.0, 3.0]] == await asyncio.gather(*again)


async def test_an_answer_of_the_wrong_length_fails_its_call_alone() -> None:
    """The next request of the team is sent."""
    answers = [[[1.0]], [[2.0]]]

    async def send(team: str, reservables: Sequence[Reservable]) -> list[list[float]]:
        return answers.pop(0)

    batches = BatchedReservations(send)
    failed = await asyncio.gather(*(batches.ask("blue", (name, b"")) for name in "ab"), return_exceptions=True)

    assert [ValueError, ValueError] == [type(each) for each in failed]
    assert [2.0] == await batches.ask("blue", ("c", b""))
