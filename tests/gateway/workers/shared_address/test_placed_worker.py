"""One of several workers behind one address, over real sockets."""

from cache_index import WorkerId
from gateway.backends.backend import Call, WorkerBackend, whole
from gateway.backends.worker import HttpWorker
from gateway.workers.shared_address.placed_worker import PlacedWorker, SharedAddress, meant_by
from gateway.workers.worker_place import WorkerPlace
from tests.gateway.backends.upstream.peer import Request, Wire, serving

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def answers(_: Request, wire: Wire) -> None:
    await wire.send(OK)


def call(*headers: tuple[bytes, bytes]) -> Call:
    return Call(b"POST", b"/v1/completions", [(b"x-request-id", b"7"), *headers], b"{}", streams=False, model="tiny")


def two(url: str) -> tuple[PlacedWorker, PlacedWorker]:
    address = SharedAddress(HttpWorker("w", url))
    return PlacedWorker("w#0", WorkerPlace(0), address), PlacedWorker("w#1", WorkerPlace(1), address)


async def ask(worker: PlacedWorker, *headers: tuple[bytes, bytes]) -> bytes:
    reply = await worker.send(call(*headers))
    body = await whole(reply)
    await reply.aclose()
    return body


async def test_a_request_says_which_rank_is_meant_and_what_the_caller_says_does_not_pass() -> None:
    async with serving(answers) as peer:
        first, second = two(peer.url)
        for worker in (first, second):
            assert b"ok" == await ask(worker, (b"x-data-parallel-rank", b"9"), (b"x-dp-rank", b"9"), (b"x-a", b"b"))
        await first.aclose()

        assert [b"0", b"1"] == [request.header(b"x-data-parallel-rank") for request in peer.requests]
        assert [(None, b"b")] * 2 == [(each.header(b"x-dp-rank"), each.header(b"x-a")) for each in peer.requests]


async def test_both_use_the_same_connection() -> None:
    """It is kept until the last of them goes."""
    async with serving(answers) as peer:
        first, second = two(peer.url)
        for worker in (first, second):
            await ask(worker)
        shown = (first.connections_open, second.connections_open)
        first.retire()
        after_one = second.connections_open
        second.retire()

        assert ((1, 1), 1, 0) == (shown, after_one, second.connections_open)


async def test_one_that_has_left_abandons_nothing_of_the_others() -> None:
    """Calls that are not answered are those of all who are still there."""
    abandoned = []

    class Watched(HttpWorker):
        def abandon_unanswered(self) -> None:
            abandoned.append(self.id)

    address = SharedAddress(Watched("w", "http://a:1"))
    first, second = PlacedWorker("w#0", WorkerPlace(0), address), PlacedWorker("w#1", WorkerPlace(1), address)
    first.retire()
    first.abandon_unanswered()
    assert [] == abandoned
    second.abandon_unanswered()
    second.retire()
    first.abandon_unanswered()

    assert ["w", "w"] == abandoned


def test_the_id_of_the_address_means_all_who_are_there() -> None:
    first, second = two("http://a:1")
    alone = HttpWorker("x", "http://b:1")
    workers: dict[WorkerId, WorkerBackend] = {WorkerId("w#0"): first, WorkerId("w#1"): second, WorkerId("x"): alone}

    assert [["w#1"], ["w#0", "w#1"], ["x"], []] == [meant_by(name, workers) for name in ("w#1", "w", "x", "y")]
