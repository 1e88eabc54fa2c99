import pytest

from gateway.server.header_lines import MOST, HeaderLines


def test_a_line_has_name_value_and_end() -> None:
    """The first time and later."""
    lines = HeaderLines()

    assert [b"server: warmgate\r\n"] * 2 == [lines.of(b"server", b"warmgate") for _ in range(2)]
    assert b"server: \r\n" == lines.of(b"server", b"")


@pytest.mark.parametrize("header", [(b"a", b"b\r\nc: d"), (b"a", b"b\n"), (b"a\r", b"b"), (b"a", b"\0")])
def test_a_header_is_one_line(header: tuple[bytes, bytes]) -> None:
    """What would be two is refused, however often it comes."""
    lines = HeaderLines()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="line end or a NUL"):
            lines.of(*header)


def test_values_that_never_come_again_do_not_pile_up() -> None:
    lines = HeaderLines()
    for number in range(3 * MOST):
        assert b"x-request-id: %d\r\n" % number == lines.of(b"x-request-id", b"%d" % number)
        assert len(lines._known) <= MOST
