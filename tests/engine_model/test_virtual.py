import pytest

from engine_model.blocks import BlockPool
from engine_model.engine import Finished, FirstToken
from engine_model.fifo import FifoEngine
from engine_model.request import EngineRequest
from engine_model.virtual import VirtualFleet


@pytest.fixture
def fleet() -> VirtualFleet:
    return VirtualFleet({name: FifoEngine(BlockPool(1000)) for name in ("w0", "w1")})


def test_an_idle_fleet_has_nothing_to_do(fleet: VirtualFleet) -> None:
    """Without requests there is no next event."""
    assert None is fleet.next_event_at()
    assert [] == fleet.advance(100.0)
    assert ("w0", "w1") == fleet.workers


def test_events_of_all_workers_come_in_order_of_time(fleet: VirtualFleet) -> None:
    """The worker of the later request may well answer first."""
    fleet.submit("w0", EngineRequest("slow", 900, 1, []), 0.0)
    fleet.submit("w1", EngineRequest("fast", 100, 1, []), 0.0)

    assert 0.02 == fleet.next_event_at()
    assert [("w1", FirstToken("fast", 0.02, 0)), ("w1", Finished("fast", 0.02))] == fleet.advance(0.02)
    assert 0.1 == pytest.approx(fleet.next_event_at())
    assert ["w0", "w0"] == [worker for worker, _ in fleet.advance(1.0)]
    assert None is fleet.next_event_at()


def test_workers_are_apart(fleet: VirtualFleet) -> None:
    """The same id at two workers is two requests, and a load is that of one."""
    for worker in fleet.workers:
        fleet.submit(worker, EngineRequest("r", 100, 5, []), 0.0)
    fleet.abort("w0", "r", 0.01)

    assert (0, 1) == (fleet.load("w0", 0.01).running, fleet.load("w1", 0.01).running)
    assert {"w1"} == {worker for worker, _ in fleet.advance(10.0)}


def test_what_fell_due_before_a_submit_is_not_lost(fleet: VirtualFleet) -> None:
    """A submit lets things happen; their events come with the next advance, with their own times."""
    fleet.submit("w0", EngineRequest("a", 100, 1, []), 0.0)
    fleet.submit("w0", EngineRequest("b", 100, 1, []), 5.0)

    assert 0.02 == fleet.next_event_at()
    assert [0.02, 0.02] == [event.at for _, event in fleet.advance(5.0)]
