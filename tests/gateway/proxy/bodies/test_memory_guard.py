"""Requests are refused while the process takes too much memory."""

import asyncio
import os
from pathlib import Path

import pytest

from gateway.protocol.errors import MemoryShort
from gateway.proxy.bodies import memory_guard
from gateway.proxy.bodies.memory_guard import MemoryGuard, memory_limit, rss_bytes_of, trimmed


def test_requests_are_refused_above_the_limit_and_taken_below() -> None:
    readings = iter([100, 101, 150, 99])
    guard = MemoryGuard(100, rss_bytes=lambda: next(readings))
    seen = []
    for _ in range(4):
        guard.look()
        seen.append(guard.looks_above > 0)

    assert [False, True, True, False] == seen


def test_a_refusal_says_which_limit_and_when_to_retry() -> None:
    guard = MemoryGuard(1, rss_bytes=lambda: 2)
    guard.check()
    guard.look()
    with pytest.raises(MemoryShort) as refusal:
        guard.check()

    assert (503, 2) == (refusal.value.status, refusal.value.retry_after_s)
    assert "server.max_memory_bytes" in refusal.value.message


async def test_the_allocator_is_asked_to_return_memory_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once when the memory is above the limit, and then every twentieth time."""
    monkeypatch.setattr(memory_guard, "EVERY_S", 0)
    looks, trims = 0, []

    def rss_bytes() -> int:
        nonlocal looks
        looks += 1
        return 2 if looks <= 41 else 0

    guard = MemoryGuard(1, rss_bytes=rss_bytes, trim=lambda: trims.append(looks))
    running = asyncio.ensure_future(guard.run())
    while looks < 45:
        await asyncio.sleep(0)
    running.cancel()

    assert [1, 21, 41] == trims
    assert not guard.looks_above


def test_the_memory_of_a_process_is_read_from_proc() -> None:
    """One that has gone counts nothing."""
    own = rss_bytes_of([os.getpid()])

    assert own > 2**20
    assert rss_bytes_of([2**30]) == 0
    trimmed()


@pytest.mark.parametrize(
    ("text", "limit"), [("1000000000\n", 900_000_000), ("max\n", None), ("9223372036854771712\n", None)]
)
def test_the_limit_of_a_container_is_found(tmp_path: Path, text: str, limit: int | None) -> None:
    """Nine tenths of it; none where there is no limit, and where there is no such file."""
    file = tmp_path / "memory.max"
    file.write_text(text)

    assert limit == memory_limit([str(tmp_path / "absent"), str(file)])
