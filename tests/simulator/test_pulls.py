"""What a worker pulls from the host tier of another one, and when it computes instead."""

from collections.abc import AsyncIterator

import pytest

from engine_model.blocks import BlockPool
from engine_model.host_tier import HostTier, PullTiming
from engine_model.request import EngineRequest
from simulator.errors import ApiError
from simulator.pulls import PullingWorker, PullPort, Question, asked, pulling

HOST = "127.0.0.1"
NOW = PullTiming(latency_s=0.0)


def a_pool(*, held: list[int], capacity: int = 8) -> BlockPool:
    pool = BlockPool(100, host=HostTier(capacity))
    assert pool.host is not None
    pool.host.store(held)
    return pool


@pytest.fixture
async def peer() -> AsyncIterator[PullPort]:
    """A worker that holds blocks 1 to 4 in host memory."""
    async with PullPort(a_pool(held=[1, 2, 3, 4])).listening(HOST, 0) as port:
        yield port


def held_by(pool: BlockPool) -> int:
    assert pool.host is not None
    return pool.host.match([1, 2, 3, 4, 5])


def a_request(hashes: list[int]) -> EngineRequest:
    """A prompt of one token more than its blocks."""
    return EngineRequest("r", 16 * len(hashes) + 1, 1, hashes)


async def test_leading_blocks_are_found(peer: PullPort) -> None:
    assert [4, 2, 0] == [await asked(HOST, peer.port, Question(hashes)) for hashes in ([1, 2, 3, 4, 5], [3, 4], [5, 1])]


async def test_a_worker_without_host_memory_has_nothing() -> None:
    async with PullPort(BlockPool(100)).listening(HOST, 0) as port:
        assert 0 == await asked(HOST, port.port, Question([1]))


async def test_missing_blocks_come_into_host_memory(peer: PullPort) -> None:
    """The worker itself held the first block."""
    pool = a_pool(held=[1])
    await PullingWorker(pool, NOW, 1.0).pull(a_request([1, 2, 3, 4, 5]), HOST, peer.port)

    assert 4 == held_by(pool)


async def test_the_block_of_the_last_token_is_not_pulled(peer: PullPort) -> None:
    pool = a_pool(held=[])
    await PullingWorker(pool, NOW, 1.0).pull(EngineRequest("r", 64, 1, [1, 2, 3, 4]), HOST, peer.port)

    assert 3 == held_by(pool)


async def test_nothing_is_asked_if_nothing_is_missing() -> None:
    """No one listens on the port."""
    pool = a_pool(held=[1, 2])
    await PullingWorker(pool, NOW, 1.0).pull(a_request([1, 2]), HOST, 1)

    assert 2 == held_by(pool)


async def test_without_an_answer_nothing_is_pulled() -> None:
    pool = a_pool(held=[1])
    await PullingWorker(pool, NOW, 0.0).pull(a_request([1, 2, 3]), HOST, 1)

    assert 1 == held_by(pool)


async def test_a_strangers_words_are_ignored(peer: PullPort) -> None:
    """Neither the question nor the answer is one."""
    assert 0 == await asked(HOST, peer.port, Question(["x"]))  # type: ignore[list-item]


async def test_a_port_that_is_taken_is_reported(peer: PullPort) -> None:
    with pytest.raises(OSError, match="in use") as raised:
        async with PullPort(BlockPool(1)).listening(HOST, peer.port):
            pass

    assert f"{HOST} port {peer.port}" == raised.value.filename


async def test_a_request_names_its_source(peer: PullPort) -> None:
    """Only requests that name one pull."""
    pool = a_pool(held=[])
    body = b'{"kv_transfer_params":{"remote_kv_source":{"kv_request_id":"x","remote_host":"%s","remote_port":%d}}}'
    async with pulling(pool, NOW, host=HOST, port=0, speed=1.0) as role:
        assert {} == role.reported
        assert [None, None] == [role.half(plain, "r") for plain in (b"{}", b'{"kv_transfer_params":{}}')]
        half = role.half(body % (HOST.encode(), peer.port), "r")
        assert half is not None
        await half.before([a_request([1, 2, 3])])
        assert await half.after() is None
        half.abandon()

    assert 3 == held_by(pool)


async def test_a_source_without_an_address_is_refused() -> None:
    with pytest.raises(ApiError, match="remote_host"):
        PullingWorker(BlockPool(1), NOW, 1.0).half(b'{"kv_transfer_params":{"remote_kv_source":{}}}', "r")
