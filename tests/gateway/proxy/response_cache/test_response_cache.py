"""Identical requests in flight: who leads, who waits, and who is sent if the leader fails."""

import asyncio

import pytest

from gateway.proxy.response_cache.response_cache import Claim, ResponseCache
from tests.gateway.examples import Clock
from tests.gateway.proxy.response_cache.examples import COMPLETE, a_response_cache

CHAT, JSON = "/v1/chat/completions", b"application/json"
CUT = b'{"choices":[{"finish_reason":"length"}]}'


def leader(cache: ResponseCache, lane: int = 0) -> Claim:
    claim = cache.claim(b"k", lane)
    assert claim is not None
    assert claim.answer is None
    return claim


async def waiting(cache: ResponseCache, count: int, lane: int = 0) -> list[asyncio.Task[Claim]]:
    assert cache.claim(b"k", lane) is None
    turns = [asyncio.ensure_future(cache.turn(b"k", lane)) for _ in range(count)]
    await asyncio.sleep(0)
    return turns


async def test_all_share_the_answer_of_the_leader() -> None:
    """Later requests find it in the cache."""
    cache = a_response_cache(clock=(clock := Clock()))
    first = leader(cache)
    turns = await waiting(cache, 3)
    first.publish(CHAT, COMPLETE, JSON, None)
    claims = await asyncio.gather(*turns)
    clock.now += 3.5
    later = cache.claim(b"k", 0)

    assert [(COMPLETE, "shared", 0)] * 3 == [(c.answer and c.answer.body, c.result, c.age_s) for c in claims]
    assert later is not None
    assert (COMPLETE, "hit", 3) == (later.answer and later.answer.body, later.result, later.age_s)
    assert 0 == cache.flights


async def test_all_run_alone_if_the_answer_cannot_be_kept() -> None:
    """They are not sent one after the other, and nothing is kept."""
    cache = a_response_cache()
    first = leader(cache)
    turns = await waiting(cache, 3)
    first.publish(CHAT, CUT, JSON, None)
    claims = await asyncio.gather(*turns)

    assert [(None, "miss")] * 3 == [(c.answer, c.result) for c in claims]
    assert (0, 0) == (cache.flights, len(cache.store))


async def test_the_next_leads_if_the_leader_leaves() -> None:
    """However often that happens; the others go on waiting."""
    cache = a_response_cache()
    first = leader(cache)
    turns = await waiting(cache, 4)
    first.close(has_left=True)
    for turn in turns[:3]:
        (await turn).close(has_left=True)
    last = await turns[3]

    assert last.answer is None
    assert 1 == cache.flights
    last.close(has_left=True)
    assert 0 == cache.flights


async def test_all_run_alone_after_two_failures() -> None:
    """A request that always fails is not tried once for each that waits, one after the other."""
    cache = a_response_cache()
    first = leader(cache)
    turns = await waiting(cache, 4)
    first.close(has_left=False)
    second = await turns[0]
    await asyncio.sleep(0)
    assert [False] * 3 == [turn.done() for turn in turns[1:]]
    second.close(has_left=False)
    claims = await asyncio.gather(*turns[1:])

    assert [None] * 3 == [claim.answer for claim in claims]
    assert 0 == cache.flights


async def test_a_request_that_leaves_is_passed_over() -> None:
    """It neither leads nor gets an answer."""
    cache = a_response_cache()
    first = leader(cache)
    turns = await waiting(cache, 2)
    turns[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await turns[0]
    first.close(has_left=True)

    assert (await turns[1]).answer is None


async def test_a_request_that_leaves_as_it_is_to_lead_hands_over() -> None:
    """The lead is not lost between the two."""
    cache = a_response_cache()
    first = leader(cache)
    turns = await waiting(cache, 2)
    first.close(has_left=True)
    turns[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await turns[0]

    assert (await turns[1]).answer is None
    assert 1 == cache.flights


async def test_lanes_do_not_wait_for_each_other() -> None:
    """A chat does not wait for the same request of a batch, which waits for idle workers. Both use what is kept."""
    cache = a_response_cache()
    of_batch, of_chat = leader(cache, lane=3), leader(cache, lane=1)
    turns = await waiting(cache, 1, lane=3)
    of_chat.publish(CHAT, COMPLETE, JSON, None)

    assert not turns[0].done()
    of_batch.publish(CHAT, COMPLETE, JSON, None)
    assert (await turns[0]).answer is not None
    assert 1 == len(cache.store)


async def test_a_request_that_reads_nothing_replaces_the_answer() -> None:
    """It does not wait for others either."""
    cache = a_response_cache()
    leader(cache).publish(CHAT, COMPLETE, JSON, None)
    fresh = cache.claim(b"k", 0, reads=False)
    assert fresh is not None
    assert fresh.answer is None
    fresh.publish(CHAT, COMPLETE.replace(b"Hello", b"Bye"), JSON, None)
    found = cache.claim(b"k", 0)

    assert found is not None
    assert found.answer is not None
    assert b"Bye" in found.answer.body


async def test_a_claim_ends_once() -> None:
    """Later calls have no effect."""
    cache = a_response_cache()
    first = leader(cache)
    first.refuse()
    first.publish(CHAT, COMPLETE, JSON, None)
    first.close(has_left=False)

    assert (0, 0) == (cache.flights, len(cache.store))


def test_a_recording_that_becomes_too_large_is_dropped() -> None:
    """Its bytes are no longer counted."""
    cache = a_response_cache(max_bytes=400, max_answer_bytes=100)
    claim = cache.claim(b"k", 0, shares=False)
    assert claim is not None
    claim.begin_recording()
    claim.record(b"x" * 60)
    assert b"x" * 60 == claim.recorded()
    claim.record(b"x" * 60)
    claim.record(b"x")

    assert claim.recorded() is None
    assert cache.store.may_record(0, 100)
