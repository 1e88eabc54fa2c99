"""Where one worker stands among several behind one address."""

import pytest

from gateway.ranks.place import Place, base_id, place_of
from gateway.ranks.population import nobody, spread
from gateway.settings import WorkerSettings
from tests.gateway.settings.examples import parsed, with_worker


@pytest.mark.parametrize(
    ("place", "name", "headers"),
    [
        (Place(3), "3", [(b"x-data-parallel-rank", b"3")]),
        (Place(instance="77"), "77", [(b"x-dynamo-worker-instance-id", b"77")]),
        (Place(1, "77"), "77.1", [(b"x-dynamo-worker-instance-id", b"77"), (b"x-dynamo-dp-rank", b"1")]),
    ],
)
def test_a_place_has_a_name_and_headers(place: Place, name: str, headers: list[tuple[bytes, bytes]]) -> None:
    assert (name, headers) == (place.name, place.headers)


def test_a_worker_with_an_address_of_its_own_has_no_place() -> None:
    worker = WorkerSettings(url="http://a:1", id="gpu")
    first, _ = spread(parsed(with_worker(id="gpu", ranks=2)), nobody).models[0].workers

    assert (None, "gpu") == (place_of(worker), base_id(worker))
    assert (Place(0), "gpu", "gpu#0") == (place_of(first), base_id(first), first.id)
