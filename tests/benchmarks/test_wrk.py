from pathlib import Path

import pytest

from benchmarks.wrk import Found, command


def test_what_wrk_prints_before_the_figures_is_no_matter() -> None:
    """Our script's object is the last thing that it prints."""
    printed = (
        'Running 5s test {x}\n{"requests": 500, "duration_us": 2000000, "p50_us": 1500, "p99_us": 9000, "errors": 3}\n'
    )

    assert Found(answers=500, took_s=2.0, p50_ms=1.5, p99_ms=9.0, errors=3) == Found.in_output(printed)


@pytest.mark.parametrize(("seconds", "option"), [(0.2, "-d1"), (3.4, "-d3")])
def test_seconds_are_whole_and_at_least_one(seconds: float, option: str) -> None:
    """Wrk takes no others."""
    words = command("http://w", script=Path("s"), bodies=Path("b"), connections=7, seconds=seconds, secret="s")

    assert option in words
    assert "-c7" in words
    assert ["http://w", "--", "b", "s"] == list(words[-4:])
