"""What the counter of generated tokens says, reading by reading."""

import gc
import math

import pytest

from gateway.backends.upstream.engine_progress import EngineProgress, EnginesProgress

Reading = tuple[float | None, float, float]
"""Tokens, when it was asked for, and when it came."""
UNSEEN = -math.inf


def nothing() -> None:
    """No one reads."""


@pytest.mark.parametrize(
    ("readings", "since", "expected"),
    [
        pytest.param([], 0.0, UNSEEN, id="no reading"),
        pytest.param([(5, 1.0, 1.1)], 0.0, UNSEEN, id="one reading compares with nothing"),
        pytest.param([(5, 1.0, 1.1), (9, 2.0, 2.1)], 0.5, 2.1, id="both since then, and more tokens"),
        pytest.param([(5, 1.0, 1.1), (9, 2.0, 2.1)], 1.0, 2.1, id="the first was asked for at that moment"),
        pytest.param([(5, 1.0, 1.1), (9, 2.0, 2.1)], 1.05, UNSEEN, id="the first was asked for before"),
        pytest.param([(5, 1.0, 1.1), (5, 2.0, 2.1)], 0.5, UNSEEN, id="no more tokens"),
        pytest.param([(5, 1.0, 1.1), (5, 2.0, 2.1), (6, 3.0, 3.1)], 0.5, 3.1, id="more tokens later"),
        pytest.param([(5, 1.0, 1.1), (6, 2.0, 2.1), (6, 3.0, 3.1)], 0.5, 2.1, id="and then no more"),
        pytest.param([(5, 1.0, 1.1), (6, 2.0, 2.1), (7, 3.0, 3.1)], 1.5, 3.1, id="the last advance counts"),
        pytest.param([(5, 1.0, 4.0), (6, 2.0, 2.1)], 0.5, UNSEEN, id="a reading that was overtaken"),
        pytest.param([(5, 1.0, 2.0), (6, 2.0, 2.1)], 0.5, 2.1, id="one right behind the other"),
        pytest.param([(9, 1.0, 1.1), (2, 2.0, 2.1)], 0.5, UNSEEN, id="a restart is no progress"),
        pytest.param([(9, 1.0, 1.1), (2, 2.0, 2.1), (3, 3.0, 3.1)], 0.5, 3.1, id="progress after a restart"),
        pytest.param([(5, 1.0, 1.1), (None, 2.0, 2.1), (6, 3.0, 3.1)], 0.5, UNSEEN, id="an engine without a counter"),
        pytest.param([(5, 1.0, 1.1), (None, 2, 2.1), (6, 3, 3.1), (7, 4, 4.1)], 0.5, 4.1, id="and one again"),
    ],
)
def test_an_engine_is_seen_to_generate(readings: list[Reading], since: float, expected: float) -> None:
    """Two readings that were both asked for since then have to differ; the moment is that of the second."""
    progress = EngineProgress(nothing)
    for tokens, asked_at, read_at in readings:
        progress.note(tokens, asked_at=asked_at, read_at=read_at)

    assert expected == progress.generated_at(since)


def test_readings_are_asked_for_so_often_and_no_more() -> None:
    """However many streams pause, and however often they are looked at."""
    asked: list[float] = []
    now = 10.0
    progress = EngineProgress(lambda: asked.append(now))
    progress.note(7.0, asked_at=1.0, read_at=1.1)
    for tenth in range(100, 111):
        now = tenth / 10
        progress.ask(now, every_s=0.5)

    assert [10.0, 10.5, 11.0] == asked


@pytest.mark.parametrize("readings", [[], [(None, 1.0, 1.1)], [(5.0, 1.0, 1.1), (None, 2.0, 2.1)]])
def test_an_engine_that_shows_no_counter_is_not_asked(readings: list[Reading]) -> None:
    """Its answer would decide nothing."""
    asked: list[str] = []
    progress = EngineProgress(lambda: asked.append("asked"))
    for tokens, asked_at, read_at in readings:
        progress.note(tokens, asked_at=asked_at, read_at=read_at)
    progress.ask(10.0, every_s=0.5)

    assert [] == asked


def test_all_who_send_to_one_address_know_the_same() -> None:
    """Workers that several models share are read for any of them; questions name the address."""
    asked: list[str] = []
    engines = EnginesProgress(asked.append)
    first, second, other = engines.of("http://a"), engines.of("http://a"), engines.of("http://b")
    for tokens, asked_at, read_at in [(5.0, 1.0, 1.1), (6.0, 2.0, 2.1)]:
        engines.note("http://a", tokens, asked_at=asked_at, read_at=read_at)
    first.ask(3.0, every_s=0.5)

    assert first is second
    assert (2.1, UNSEEN) == (second.generated_at(0.0), other.generated_at(0.0))
    assert ["http://a"] == asked


def test_of_an_address_that_no_one_uses_nothing_is_kept() -> None:
    """Workers come and go; a reading of one that is gone is no one's."""
    engines = EnginesProgress(lambda _: None)
    used = engines.of("http://a")
    engines.note("http://a", 5.0, asked_at=1.0, read_at=1.1)
    del used
    gc.collect()
    engines.note("http://a", 6.0, asked_at=2.0, read_at=2.1)

    assert UNSEEN == engines.of("http://a").generated_at(0.0)
