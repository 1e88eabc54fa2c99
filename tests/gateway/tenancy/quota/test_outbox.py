"""Operations that wait for the store."""

import random

from gateway.tenancy.quota.outbox import Outbox
from gateway.tenancy.quota.redis_operation import Operation


def drop(name: str) -> Operation:
    return Operation("drop", name, (), None)


def names(outbox: Outbox, team: str, most: int = 100) -> tuple[int, list[str]]:
    number, operations = outbox.first(team, most)
    return number, [operation.reservation for operation in operations]


def test_each_team_has_its_own_order_and_numbers() -> None:
    outbox = Outbox()
    for team, name in (("blue", "a"), ("red", "b"), ("blue", "c")):
        outbox.add(team, drop(name))

    assert (1, ["a", "c"]) == names(outbox, "blue")
    assert (1, ["b"]) == names(outbox, "red")
    assert (1, ["a"]) == names(outbox, "blue", most=1)
    assert (1, []) == names(outbox, "green")
    assert ["blue", "red"] == outbox.teams()
    assert 3 == len(outbox)


def test_numbers_go_on_when_everything_is_done() -> None:
    """A number that came twice would be taken for an operation that was carried out."""
    outbox = Outbox()
    outbox.add("blue", drop("a"))
    outbox.add("blue", drop("b"))
    outbox.done("blue", 2, 0.0)
    assert [] == outbox.teams()

    outbox.add("blue", drop("c"))
    outbox.done("blue", 2, 0.0)

    assert (3, ["c"]) == names(outbox, "blue")
    assert 1 == len(outbox)


def test_without_room_the_oldest_of_the_team_with_most_goes() -> None:
    """The others keep their numbers."""
    outbox = Outbox(max_waiting=3)
    for team, name in (("blue", "a"), ("blue", "b"), ("red", "c"), ("red", "d"), ("red", "e")):
        outbox.add(team, drop(name))

    assert 3 == len(outbox)
    assert 2 == outbox.dropped
    assert (2, ["b"]) == names(outbox, "blue")
    assert (2, ["d", "e"]) == names(outbox, "red")


def test_recent_operations_can_wait_again() -> None:
    """Under its numbers, before what waits; what was done long ago cannot."""
    outbox = Outbox(kept_s=5.0)
    for name in "abcd":
        outbox.add("blue", drop(name))
    outbox.done("blue", 1, 10.0)
    outbox.done("blue", 3, 12.0)
    outbox.add("red", drop("e"))
    outbox.done("red", 1, 12.0)
    outbox.reopen(16.0)

    assert (2, ["b", "c", "d"]) == names(outbox, "blue")
    assert (1, ["e"]) == names(outbox, "red")
    assert 4 == len(outbox)


def test_old_operations_take_no_memory() -> None:
    outbox = Outbox(kept_s=5.0)
    outbox.add("blue", drop("a"))
    outbox.done("blue", 1, 10.0)
    outbox.forget(16.0)
    outbox.reopen(10.0)

    assert [] == outbox.teams()


def test_dropped_operations_leave_no_gap_in_the_numbers() -> None:
    outbox = Outbox(max_waiting=2)
    for name in "abc":
        outbox.add("blue", drop(name))
        outbox.done("blue", 1, 0.0)
    outbox.add("blue", drop("d"))
    outbox.reopen(0.0)

    assert (3, ["c", "d"]) == names(outbox, "blue")


def test_whatever_happens_each_is_handed_out_under_one_number_only() -> None:
    """Against a plain list of all that was ever added, by team."""
    rng = random.Random(5)
    outbox = Outbox(max_waiting=20)
    added: dict[str, list[str]] = {"blue": [], "red": []}
    done = {"blue": 0, "red": 0}
    for step in range(5000):
        team = rng.choice(["blue", "red"])
        if rng.random() < 0.6:
            added[team].append(str(step))
            outbox.add(team, drop(str(step)))
        elif team in outbox.teams():
            number, operations = names(outbox, team, rng.randint(1, 8))
            assert number > done[team]
            assert added[team][number - 1 : number - 1 + len(operations)] == operations
            done[team] = number - 1 + rng.randint(0, len(operations))
            outbox.done(team, done[team], step / 10)
        assert sum(len(names(outbox, each)[1]) for each in added) == len(outbox)
        assert len(outbox) <= 20
