from gateway.timestamp import MILLISECONDS, tenths_of_ms


def test_each_millisecond_has_three_digits() -> None:
    assert (".000Z", ".007Z", ".999Z") == (MILLISECONDS[0], MILLISECONDS[7], MILLISECONDS[999])


def test_a_duration_keeps_a_tenth_of_a_millisecond() -> None:
    """Rounded, not cut."""
    assert [0.0, 0.1, 1234.6] == [tenths_of_ms(0.00004), tenths_of_ms(0.00005), tenths_of_ms(1.23456)]
