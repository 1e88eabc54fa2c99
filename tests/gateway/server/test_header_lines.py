import pytest

from gateway.server.header_lines import MOST, HeaderLines, HeaderNames, line_of


def test_a_line_has_name_value_and_end() -> None:
    """The first time and later."""
    lines = HeaderLines()

    assert [b"server: warmgate\r\n"] * 2 == [lines.line((b"server", b"warmgate")) for _ in range(2)]
    assert b"server: \r\n" == lines.line((b"server", b""))
    assert b"x-request-id: 1\r\n" == line_of(b"x-request-id: ", b"1")


def test_what_is_known_is_not_made_again() -> None:
    """It is the same, whichever tuple asks for it."""
    lines = HeaderLines()
    made = lines.line((b"server", b"warmgate"))

    assert made is lines.line((b"server", bytes(bytearray(b"warmgate"))))


@pytest.mark.parametrize("header", [(b"a", b"b\r\nc: d"), (b"a", b"b\n"), (b"a\r", b"b"), (b"a", b"\0")])
def test_a_header_is_one_line(header: tuple[bytes, bytes]) -> None:
    """What would be two is refused, however often it comes."""
    lines = HeaderLines()
    name, value = header
    for _ in range(2):
        with pytest.raises(RuntimeError, match="line end or a NUL"):
            lines.line(header)
        with pytest.raises(RuntimeError, match="line end or a NUL"):
            line_of(name + b": ", value)


def test_lines_that_never_come_again_do_not_pile_up() -> None:
    lines = HeaderLines()
    for number in range(3 * MOST):
        assert b"etag: %d\r\n" % number == lines.line((b"etag", b"%d" % number))
        assert len(lines._known) <= MOST


def test_long_lines_are_not_kept() -> None:
    """Name, value, and four bytes beside them may be 1024."""
    lines = HeaderLines()

    assert b"a: %b\r\n" % (b"x" * 1020) == lines.line((b"a", b"x" * 1020))
    lines.line((b"a", b"x" * 1019))
    assert [(b"a", b"x" * 1019)] == list(lines._known)


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
