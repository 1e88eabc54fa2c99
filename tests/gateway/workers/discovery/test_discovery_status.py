"""State of the sources of workers."""

import logging

import pytest

from gateway.workers.discovery.discovery_status import DiscoveryStatus
from gateway.workers.discovery.endpoints import ServiceSource
from gateway.workers.discovery.source import WorkerSource
from tests.gateway.examples import Clock

TINY = WorkerSource("tiny", ServiceSource(name="a"))
BIG = WorkerSource("big", ServiceSource(name="a"))


def samples(discovery_status: DiscoveryStatus) -> dict[str, float]:
    return {
        f"{sample.name.removeprefix('warmgate_discovery_')} {sample.labels['model']}": sample.value
        for metric in discovery_status.collect()
        for sample in metric.samples
    }


def test_the_age_counts_from_when_a_source_was_heard_last() -> None:
    """Before its first answer, the first question counts."""
    clock = Clock(10.0)
    discovery_status = DiscoveryStatus(clock=clock)
    with discovery_status.of(TINY) as source_status:
        clock.now = 15.0
        assert {"tiny": {"service": {"synced": False, "workers": 0, "age_s": 5.0}}} == discovery_status.report()
        source_status.heard(2)
        clock.now = 17.0
        source_status.failed("it is away")
        source_status.failed("it is away")

        assert {
            "tiny": {"service": {"synced": True, "workers": 2, "age_s": 2.0, "fault": "it is away"}}
        } == discovery_status.report()
        assert {
            "age_seconds tiny": 2.0,
            "synced tiny": 1.0,
            "workers tiny": 2.0,
            "failures_total tiny": 2.0,
        } == samples(discovery_status)
    assert {} == discovery_status.report()


def test_an_outage_is_said_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with DiscoveryStatus(clock=Clock(0.0)).of(TINY) as source_status:
        for _ in range(3):
            source_status.failed("it is away")
        for _ in range(3):
            source_status.heard(1)

    assert [
        "model tiny: discovery source 'service' does not answer; the last known workers stay in use: it is away",
        "model tiny: discovery source 'service' answers again",
    ] == caplog.messages


def test_the_gateway_is_awaited_until_each_source_was_heard() -> None:
    """Once: a reload that brings one which no one hears must not take the whole gateway out."""
    discovery_status = DiscoveryStatus(clock=Clock(0.0))
    with discovery_status.of(TINY) as tiny, discovery_status.of(BIG) as big:
        tiny.heard(0)
        before = discovery_status.are_awaited
        big.heard(1)
        assert (True, False) == (before, discovery_status.are_awaited)
        with discovery_status.of(WorkerSource("new", ServiceSource(name="a"))):
            assert not discovery_status.are_awaited


def test_who_asks_no_one_is_not_awaited() -> None:
    assert not DiscoveryStatus(clock=Clock(0.0)).are_awaited


def test_a_search_that_takes_over_is_the_one_that_is_shown() -> None:
    """Also when the one before it ends."""
    discovery_status = DiscoveryStatus(clock=Clock(0.0))
    former = discovery_status.of(TINY)
    former.__enter__().heard(1)
    with discovery_status.of(TINY) as source_status:
        source_status.heard(2)
        former.__exit__(None, None, None)
        assert 2 == discovery_status.report()["tiny"]["service"]["workers"]
