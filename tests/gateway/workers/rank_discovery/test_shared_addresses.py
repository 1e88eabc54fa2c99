"""Workers that share an address share its connections."""

from gateway.backends.worker import HttpWorker
from gateway.workers.dynamo.pinned_worker import PinnedWorker
from gateway.workers.rank_discovery.shared_addresses import SharedAddresses
from gateway.workers.shared_address.placed_worker import PlacedWorker
from gateway.workers.worker_place import WorkerPlace


def connect() -> HttpWorker:
    return HttpWorker("w", "http://a:1")


def test_ranks_of_one_url_share_its_connections_and_others_do_not() -> None:
    addresses = SharedAddresses([])
    first, second = (addresses.worker(f"w#{rank}", WorkerPlace(rank), "http://a:1", connect) for rank in range(2))
    other = addresses.worker("x#0", WorkerPlace(0), "http://b:1", connect)

    assert first.address is second.address
    assert first.address is not other.address


def test_who_comes_later_joins_those_that_are_kept() -> None:
    """A worker that shares no address has none to join."""
    kept = SharedAddresses([]).worker("w#0", WorkerPlace(0), "http://a:1", connect)
    joined = SharedAddresses([kept, connect()]).worker("w#1", WorkerPlace(1), "http://a:1", connect)

    assert kept.address is joined.address


def test_a_place_behind_a_frontend_is_a_pinned_worker() -> None:
    addresses = SharedAddresses([])

    assert PlacedWorker is type(addresses.worker("w#0", WorkerPlace(0), "http://a:1", connect))
    assert PinnedWorker is type(addresses.worker("w#7", WorkerPlace(None, "7"), "http://b:1", connect))
