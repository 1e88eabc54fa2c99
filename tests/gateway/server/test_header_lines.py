import pytest

from gateway.server.header_lines import MOST, HeaderLines, HeaderNames


def test_a_line_has_name_value_and_end() -> None:
    """The first time and later."""
    lines = HeaderLines()

    assert [b"server: warmgate\r\n"] * 2 == [lines.of((b"server", b"warmgate")) for _ in range(2)]
    assert b"server: \r\n" == lines.of((b"server", b""))


def test_what_is_known_is_not_made_again() -> None:
    """Of what comes again: the same, whichever tuple asks for it."""
    lines = HeaderLines()
    header = (b"server", b"warmgate")
    assert lines.known(header) is None

    made = lines.of(header)
    assert made is lines.known(header)
    assert made is lines.known((b"server", bytes(bytearray(b"warmgate"))))
    lines.of((b"x-request-id", b"1"))
    assert lines.known((b"x-request-id", b"1")) is None


@pytest.mark.parametrize("header", [(b"a", b"b\r\nc: d"), (b"a", b"b\n"), (b"a\r", b"b"), (b"a", b"\0")])
def test_a_header_is_one_line(header: tuple[bytes, bytes]) -> None:
    """What would be two is refused, however often it comes."""
    lines = HeaderLines()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="line end or a NUL"):
            lines.of(header)


def test_values_that_never_come_again_do_not_pile_up() -> None:
    lines = HeaderLines()
    for number in range(3 * MOST):
        assert b"x-request-id: %d\r\n" % number == lines.of((b"x-request-id", b"%d" % number))
        assert len(lines._known) <= MOST


def test_names_are_told_in_lower_case_and_kept() -> None:
    names = HeaderNames()

    assert b"content-type" == names.lower(b"Content-Type")
    assert names.lower(b"Content-Type") is names.lower(bytes(bytearray(b"Content-Type")))


def test_names_that_never_come_again_do_not_pile_up() -> None:
    """Nor are long ones kept at all."""
    names = HeaderNames()
    for number in range(3 * MOST):
        assert b"x-%d" % number == names.lower(b"X-%d" % number)
        assert len(names._lower) <= MOST
    kept = len(names._lower)

    assert b"x" * 65 == names.lower(b"X" * 65)
    assert kept == len(names._lower)
