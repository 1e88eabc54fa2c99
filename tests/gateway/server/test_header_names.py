from gateway.server.header_names import MOST, HeaderNames


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
