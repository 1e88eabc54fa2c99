"""Workers that share an address share its connections."""

from gateway.backends.worker import HttpWorker
from gateway.dynamo.pinned_worker import PinnedWorker
from gateway.ranks.addresses import Addresses
from gateway.ranks.place import Place
from gateway.ranks.placed_worker import PlacedWorker


def connect() -> HttpWorker:
    return HttpWorker("w", "http://a:1")


def test_ranks_of_one_url_share_its_connections_and_others_do_not() -> None:
    addresses = Addresses([])
    first, second = (addresses.worker(f"w#{rank}", Place(rank), "http://a:1", connect) for rank in range(2))
    other = addresses.worker("x#0", Place(0), "http://b:1", connect)

    assert first.address is second.address
    assert first.address is not other.address


def test_who_comes_later_joins_those_that_are_kept() -> None:
    """A worker that shares no address has none to join."""
    kept = Addresses([]).worker("w#0", Place(0), "http://a:1", connect)
    joined = Addresses([kept, connect()]).worker("w#1", Place(1), "http://a:1", connect)

    assert kept.address is joined.address


def test_a_place_behind_a_frontend_is_a_pinned_worker() -> None:
    addresses = Addresses([])

    assert PlacedWorker is type(addresses.worker("w#0", Place(0), "http://a:1", connect))
    assert PinnedWorker is type(addresses.worker("w#7", Place(None, "7"), "http://b:1", connect))
