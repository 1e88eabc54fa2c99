"""Who keeps which response."""

from cache_index import WorkerId
from gateway.response_owners import Owner, ResponseOwners

OF_A = Owner("tiny", WorkerId("a"))
OF_B = Owner("tiny", WorkerId("b"))


def test_what_was_remembered_is_found() -> None:
    """By its id only; what nobody told is unknown."""
    owners = ResponseOwners()
    owners.remember("resp_1", OF_A)
    owners.remember("resp_2", OF_B)

    assert (OF_A, OF_B, None) == (owners.find("resp_1"), owners.find("resp_2"), owners.find("resp_3"))


def test_what_was_told_last_counts() -> None:
    """An id that comes twice is the later worker's."""
    owners = ResponseOwners()
    owners.remember("resp_1", OF_A)
    owners.remember("resp_1", OF_B)

    assert OF_B == owners.find("resp_1")


def test_the_least_recently_used_are_forgotten() -> None:
    """To be remembered again, or found, is to be used."""
    owners = ResponseOwners(most=3)
    for response_id in ("resp_1", "resp_2", "resp_3"):
        owners.remember(response_id, OF_A)
    owners.remember("resp_1", OF_A)
    owners.find("resp_2")
    owners.remember("resp_4", OF_B)

    assert [True, True, False, True] == [owners.peek(f"resp_{i}") is not None for i in (1, 2, 3, 4)]


def test_a_peek_is_no_use() -> None:
    """Whoever only explains changes nothing."""
    owners = ResponseOwners(most=2)
    owners.remember("resp_1", OF_A)
    owners.remember("resp_2", OF_A)

    assert OF_A == owners.peek("resp_1")
    assert owners.peek("resp_9") is None

    owners.remember("resp_3", OF_A)

    assert owners.peek("resp_1") is None
