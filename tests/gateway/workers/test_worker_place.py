"""Where one worker stands among several behind one address."""

import pytest

from gateway.workers.rank_discovery.expansion import expanded, nothing_known
from gateway.workers.worker_place import WorkerPlace
from gateway.workers.worker_spec import WorkerSpec
from tests.gateway.settings.examples import with_worker, with_workers


@pytest.mark.parametrize(
    ("place", "name", "headers"),
    [
        (WorkerPlace(3), "3", [(b"x-data-parallel-rank", b"3")]),
        (WorkerPlace(instance="77"), "77", [(b"x-dynamo-worker-instance-id", b"77")]),
        (WorkerPlace(1, "77"), "77.1", [(b"x-dynamo-worker-instance-id", b"77"), (b"x-dynamo-dp-rank", b"1")]),
    ],
)
def test_a_place_has_a_name_and_headers(place: WorkerPlace, name: str, headers: list[tuple[bytes, bytes]]) -> None:
    assert (name, headers) == (place.name, place.headers)


def test_a_worker_with_an_address_of_its_own_has_no_place() -> None:
    worker = WorkerSpec(url="http://a:1", id="gpu")
    first, _ = expanded(with_workers(with_worker(id="gpu", ranks=2)), nothing_known)[0].workers

    assert (None, "gpu") == (worker.place, worker.base_id)
    assert (WorkerPlace(0), "gpu", "gpu#0") == (first.place, first.base_id, first.id)
