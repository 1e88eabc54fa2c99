from gateway.server.addresses import Addresses
from gateway.server.shared_state import MAX_NAMES, DateLine, HeaderNames, SharedState


def test_the_date_is_formatted_once_a_second() -> None:
    """In the format of RFC 9110."""
    asked: list[float] = []

    def wall_clock() -> float:
        asked.append(784_111_777.25 + len(asked) * 0.8)
        return asked[-1]

    date = DateLine(wall_clock)
    lines = [date.line(now) for now in (5.0, 5.5, 5.7, 5.76, 6.5)]

    assert b"date: Sun, 06 Nov 1994 08:49:37 GMT\r\n" == lines[0] == lines[1] == lines[2]
    assert b"date: Sun, 06 Nov 1994 08:49:38 GMT\r\n" == lines[3] == lines[4]
    assert 2 == len(asked)


def test_names_are_cached_in_lower_case() -> None:
    names = HeaderNames()

    assert b"content-type" == names.lower(b"Content-Type")
    assert names.lower(b"Content-Type") is names.lower(bytes(bytearray(b"Content-Type")))


def test_the_cache_of_names_is_bounded() -> None:
    """Long names are not kept at all."""
    names = HeaderNames()
    for number in range(3 * MAX_NAMES):
        assert b"x-%d" % number == names.lower(b"X-%d" % number)
        assert len(names._lower) <= MAX_NAMES
    kept = len(names._lower)

    assert b"x" * 65 == names.lower(b"X" * 65)
    assert kept == len(names._lower)


def test_connections_are_admitted_within_both_limits() -> None:
    """A refused one is not counted, and the place of a released one is free."""
    state = SharedState(addresses=Addresses(2))
    first, client = object(), ("10.0.0.1", 5000)
    admitted = [state.admit(first, client, 3), state.admit(object(), client, 3)]
    same_address = state.admit(object(), client, 3)
    other = state.admit(object(), ("10.0.0.2", 5000), 3)
    full = state.admit(object(), ("10.0.0.3", 5000), 3)
    state.release(first, client[0])

    assert [None, None, None] == [*admitted, other]
    assert same_address is not None
    assert full is not None
    assert ("max_connections_per_address" in same_address.message, "max_connections)" in full.message) == (True, True)
    assert state.admit(object(), client, 3) is None
