"""Settings with a worker for each who stands behind an address."""

from collections.abc import Sequence
from ipaddress import ip_network
from typing import Any

import pytest

from gateway.workers.rank_discovery.expansion import Known, expanded, is_asked, nothing_known, ranks_of
from gateway.workers.shared_address.address_report import AddressReport, Instance
from gateway.workers.worker_place import WorkerPlace
from gateway.workers.worker_sets import with_found
from gateway.workers.worker_spec import EventsSpec, WorkersError, WorkerSpec
from tests.gateway.settings.examples import with_worker, with_workers

EVENTS = {"endpoint": "tcp://10.0.0.5:5557"}


def workers(known: Known = nothing_known, *, allowed: Sequence[str] = (), **fields: Any) -> tuple[WorkerSpec, ...]:
    """*allowed*: `kv_events.allowed_cidrs`."""
    return expanded(with_workers(with_worker(id="w", **fields)), known, list(map(ip_network, allowed)))[0].workers


def reported(**report: Any) -> Known:
    return lambda _, __: AddressReport(**report)


def test_one_that_has_its_address_to_itself_stays_as_it_is() -> None:
    """Nothing is copied."""
    (model,) = with_workers(with_worker())

    assert model is expanded([model], nothing_known)[0]


@pytest.mark.parametrize("fields", [{"ranks": 3}, {"kv_events": {**EVENTS, "ranks": 3}}])
def test_each_rank_is_a_worker(fields: dict[str, Any]) -> None:
    """All that is said of the address holds for each of them."""
    found = workers(tier=2, zone="a", **fields)

    assert [("w#0", WorkerPlace(0)), ("w#1", WorkerPlace(1)), ("w#2", WorkerPlace(2))] == [
        (each.id, each.place) for each in found
    ]
    assert {("http://a:1", 2, "a", 1)} == {(each.url, each.tier, each.zone, each.ranks) for each in found}


def test_who_stays_is_the_same_when_others_come() -> None:
    """Its connections and its subscription go on."""
    assert workers(ranks=2) == workers(ranks=3)[:2]
    assert workers(kv_events={**EVENTS, "ranks": 2}) == workers(kv_events={**EVENTS, "ranks": 3})[:2]


def test_an_engine_that_has_not_reported_its_ranks_is_one_worker() -> None:
    assert ["w"] == [each.id for each in workers(ranks=0)]
    assert ["w"] == [each.id for each in workers(reported(ranks=1), ranks=0)]
    assert ["w#0", "w#1"] == [each.id for each in workers(reported(ranks=2), ranks=0)]


def test_workers_of_dynamo_are_those_that_the_settings_list() -> None:
    """With what is said of each one's events, and its ranks."""
    instances = [{"id": 7}, {"id": 8, "kv_events": EVENTS}, {"id": 9, "kv_events": {**EVENTS, "ranks": 2}}]
    found = workers(dynamo={"instances": instances})
    events = EventsSpec(endpoint="tcp://10.0.0.5:5557")

    assert [("w#7", None), ("w#8", events), ("w#9.0", events), ("w#9.1", events)] == [
        (each.id, each.kv_events) for each in found
    ]
    assert [WorkerPlace(None, "7"), WorkerPlace(None, "8"), WorkerPlace(0, "9"), WorkerPlace(1, "9")] == [
        each.place for each in found
    ]
    assert ["w#7.0", "w#7.1"] == [each.id for each in workers(dynamo={"instances": [{"id": 7}]}, ranks=2)]


def test_or_those_that_the_frontend_lists() -> None:
    """Each publishes on its own host; of one whose host is not known nothing is heard."""
    listed = reported(instances=(Instance("7", "10.0.0.7"), Instance("8")))
    with_events = workers(listed, allowed=["10.0.0.0/8"], dynamo={"kv_events_port": 5557, "kv_replay_port": 5558})
    replay = EventsSpec(endpoint="tcp://10.0.0.7:5557", replay_endpoint="tcp://10.0.0.7:5558")
    (only, _) = workers(listed, allowed=["10.0.0.7"], dynamo={"kv_events_port": 5557})

    assert () == workers(dynamo={})
    assert [("w#7", None), ("w#8", None)] == [(each.id, each.kv_events) for each in workers(listed, dynamo={})]
    assert [("w#7", replay), ("w#8", None)] == [(each.id, each.kv_events) for each in with_events]
    assert EventsSpec(endpoint="tcp://10.0.0.7:5557") == only.kv_events


def test_a_frontend_cannot_name_hosts_that_are_not_allowed() -> None:
    """`kv_events.allowed_cidrs`; its own host needs no permission."""
    listed = reported(instances=(Instance("7", "10.0.0.7"), Instance("8", "redis.internal"), Instance("9", "a")))

    assert [None, None, EventsSpec(endpoint="tcp://a:5557")] == [
        each.kv_events for each in workers(listed, allowed=["10.1.0.0/16"], dynamo={"kv_events_port": 5557})
    ]


def test_or_at_the_stream_that_was_found_to_be_its_own() -> None:
    """Where several share a host."""
    stream = EventsSpec(endpoint="tcp://10.0.0.5:5561")
    listed = reported(instances=(Instance("7", "10.0.0.5", stream), Instance("8", "10.0.0.5")))

    assert [stream, None] == [each.kv_events for each in workers(listed, dynamo={"streams": [EVENTS]})]


def test_two_workers_cannot_have_one_id() -> None:
    """Where both are listed the settings say so; one of them may have been found."""
    both = with_found(with_workers(with_worker(id="w", ranks=2)), {"tiny": [WorkerSpec(url="http://b:1", id="w#1")]})

    with pytest.raises(WorkersError, match="model tiny: two workers have the id w#1"):
        expanded(both, nothing_known)


def test_an_address_is_asked_where_the_settings_do_not_say() -> None:
    def asked(**fields: Any) -> bool:
        return is_asked(with_workers(with_worker(**fields))[0].workers[0])

    assert [False, False, True, True, False] == [
        asked(),
        asked(ranks=2),
        asked(ranks=0),
        asked(dynamo={}),
        asked(dynamo={"instances": [{"id": 7}]}),
    ]


def test_ranks_are_said_of_the_worker_or_of_its_events() -> None:
    assert [1, 4, 4, 0] == [
        ranks_of(with_workers(with_worker(**fields))[0].workers[0])
        for fields in ({}, {"ranks": 4}, {"kv_events": {**EVENTS, "ranks": 4}}, {"ranks": 0})
    ]
