import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.protocol.timestamp import MILLISECONDS, tenths_as_json, tenths_of_ms


def test_each_millisecond_has_three_digits() -> None:
    assert (".000Z", ".007Z", ".999Z") == (MILLISECONDS[0], MILLISECONDS[7], MILLISECONDS[999])


def test_a_duration_keeps_a_tenth_of_a_millisecond() -> None:
    """Rounded, not cut."""
    assert [0.0, 0.1, 1234.6] == [tenths_of_ms(0.00004), tenths_of_ms(0.00005), tenths_of_ms(1.23456)]


@given(st.floats(0.0, 1e9))
@example(0.00004)
@example(0.00005)
@example(1.2)
def test_a_duration_is_written_as_json_has_it(seconds: float) -> None:
    """Up to thirty years: what is put together by hand reads like what an encoder makes of the number."""
    assert msgspec.json.encode(tenths_of_ms(seconds)).decode() == tenths_as_json(seconds)
