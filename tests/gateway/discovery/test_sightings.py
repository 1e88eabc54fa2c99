"""How fresh the gateway's knowledge of its workers is."""

import logging

import pytest

from gateway.discovery.sightings import Sightings
from gateway.discovery.source import Source
from gateway.settings import ServiceSettings
from tests.gateway.examples import Clock

TINY = Source("tiny", ServiceSettings(name="a"))
BIG = Source("big", ServiceSettings(name="a"))


def samples(sightings: Sightings) -> dict[str, float]:
    return {
        f"{sample.name.removeprefix('warmgate_discovery_')} {sample.labels['model']}": sample.value
        for metric in sightings.collect()
        for sample in metric.samples
    }


def test_the_age_counts_from_when_a_source_was_heard_last() -> None:
    """Or asked first, as long as it never was."""
    clock = Clock(10.0)
    sightings = Sightings(clock=clock)
    with sightings.of(TINY) as sighting:
        clock.now = 15.0
        assert {"tiny": {"service": {"synced": False, "workers": 0, "age_s": 5.0}}} == sightings.told()
        sighting.heard(2)
        clock.now = 17.0
        sighting.failed("it is away")
        sighting.failed("it is away")

        assert {
            "tiny": {"service": {"synced": True, "workers": 2, "age_s": 2.0, "fault": "it is away"}}
        } == sightings.told()
        assert {
            "age_seconds tiny": 2.0,
            "synced tiny": 1.0,
            "workers tiny": 2.0,
            "failures_total tiny": 2.0,
        } == samples(sightings)
    assert {} == sightings.told()


def test_an_outage_is_said_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with Sightings(clock=Clock(0.0)).of(TINY) as sighting:
        for _ in range(3):
            sighting.failed("it is away")
        for _ in range(3):
            sighting.heard(1)

    assert [
        "model tiny: its service is not heard, and what was found last stays: it is away",
        "model tiny: its service is heard again",
    ] == caplog.messages


def test_the_gateway_is_awaited_until_each_source_was_heard() -> None:
    """Once: a reload that brings one which nobody hears must not take the whole gateway out."""
    sightings = Sightings(clock=Clock(0.0))
    with sightings.of(TINY) as tiny, sightings.of(BIG) as big:
        tiny.heard(0)
        before = sightings.are_awaited
        big.heard(1)
        assert (True, False) == (before, sightings.are_awaited)
        with sightings.of(Source("new", ServiceSettings(name="a"))):
            assert not sightings.are_awaited


def test_who_asks_nobody_is_not_awaited() -> None:
    assert not Sightings(clock=Clock(0.0)).are_awaited


def test_a_search_that_takes_over_is_the_one_that_is_shown() -> None:
    """Also when the one before it ends."""
    sightings = Sightings(clock=Clock(0.0))
    former = sightings.of(TINY)
    former.__enter__().heard(1)
    with sightings.of(TINY) as sighting:
        sighting.heard(2)
        former.__exit__(None, None, None)
        assert 2 == sightings.told()["tiny"]["service"]["workers"]
