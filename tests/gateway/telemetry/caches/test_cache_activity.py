"""Facts that are learned from completed requests."""

import asyncio

import pytest

from gateway.protocol.usage import Usage
from gateway.telemetry.caches.cache_activity import MAX_PER_BATCH
from gateway.telemetry.caches.prefix_words import PrefixWords
from tests.fakes.intake import some_counters
from tests.gateway.telemetry.caches.examples import Observed, Streams
from tests.routing.examples import A, a_request

TEXT = "abcdefghijklmnop"
"""16 blocks, 256 tokens."""


def test_hits_of_a_worker_are_added_up() -> None:
    observed = Observed()
    request = a_request(TEXT)
    observed.activity.observe([observed.answered(request, usage=Usage(256, 1, 192), hit_tokens=224.0)])
    sums = observed.activity.history.peek("tiny", "a")

    assert (1, 256, 224, 192, 192, 0) == (
        sums.requests,
        sums.prompt,
        sums.predicted,
        sums.reported,
        sums.agreed,
        sums.recomputed,
    )


def test_tokens_that_the_same_worker_computed_before_are_computed_again() -> None:
    """The worker has evicted half of the prompt; another worker computes all of it for the first time."""
    observed = Observed()
    request = a_request(TEXT)
    observed.activity.observe([observed.answered(request)])
    observed.activity.observe([observed.answered(request, usage=Usage(256, 1, 128))])
    observed.activity.observe([observed.answered(request, "b")])

    assert 128 == observed.activity.history.peek("tiny", "a").recomputed
    assert 128 / (256 + 128) == pytest.approx(observed.activity.history.peek("tiny", "a").thrash_share)
    assert 0 == observed.activity.history.peek("tiny", "b").recomputed


def test_less_than_two_blocks_are_not_computed_again() -> None:
    """An engine always computes the last token, and with it the last block."""
    observed = Observed()
    request = a_request(TEXT)
    observed.activity.observe([observed.answered(request)])
    observed.activity.observe([observed.answered(request, usage=Usage(256, 1, 240))])

    assert 0 == observed.activity.history.peek("tiny", "a").recomputed


@pytest.mark.parametrize(
    "known",
    [
        {"usage": None},
        {"usage": Usage(256, 1, None)},
        {"usage": Usage(0, 1, 0)},
        {"served_by": "openai"},
        {"prefill": "remote"},
        {"backend": None},
        {"strategy": None},
        {"first_byte": None, "error": "WorkerFailed"},
        {"request": None},
    ],
)
def test_requests_without_a_reported_hit_of_a_worker_do_not_count(known: dict[str, object]) -> None:
    observed = Observed()
    ended = observed.answered(a_request(TEXT))
    for name, value in known.items():
        setattr(ended.exchange, name, value)
    observed.activity.observe([ended])

    assert 0 == observed.activity.history.peek("tiny", "a").requests


def test_prefixes_are_counted_by_team() -> None:
    """A fallback's answer counts too, because the prefix was asked for."""
    observed = Observed()
    observed.activity.observe([observed.answered(a_request("abcd"), team="blue") for _ in range(2)])
    observed.activity.observe([observed.answered(a_request("abcd"), served_by="openai")])
    (hottest,) = observed.activity.prefixes.hottest(1, 100.0)

    assert {"blue", ""} == set(hottest.teams)


def test_a_large_batch_is_sampled_evenly() -> None:
    observed = Observed()
    observed.activity.observe([observed.answered(a_request(TEXT), "a" if i < 40 else "b") for i in range(80)])

    assert 8 == MAX_PER_BATCH
    assert (4, 4) == tuple(observed.activity.history.peek("tiny", worker).requests for worker in "ab")


def test_more_requests_than_can_be_examined_are_counted_with_the_next_ones() -> None:
    """A sixteenth of a second later, eight requests may be examined again."""
    observed = Observed()
    observed.activity.observe([observed.answered(a_request("abcd")) for _ in range(64)])
    observed.activity.observe([observed.answered(a_request("abcd")) for _ in range(64)])

    (hottest,) = observed.activity.prefixes.hottest(1, 100.0)
    assert 64 * 0.6931471805599453 / 5 == pytest.approx(hottest.per_minute)

    observed.clock.now += 0.0625
    observed.activity.observe([observed.answered(a_request("abcd")) for _ in range(64)])

    (hottest,) = observed.activity.prefixes.hottest(1, 100.0)
    assert 192 * 0.6931471805599453 / 5 == pytest.approx(hottest.per_minute, rel=1e-3)


def test_a_minute_ends_for_all_workers() -> None:
    observed = Observed(streams=Streams({A: some_counters(trust="live", gaps=1)}))
    observed.activity.observe([observed.answered(a_request(TEXT))])
    observed.activity.end_minute()
    history = observed.activity.history

    assert [[1000.0]] * 3 == [[minute.ended_at for minute in history.minutes("tiny", worker)] for worker in "abc"]
    assert [1, 0, 0] == [history.minutes("tiny", worker)[0].hits.requests for worker in "abc"]
    assert [1, 0, 0] == [history.minutes("tiny", worker)[0].stream.gaps for worker in "abc"]


def test_a_sampled_request_stands_for_the_others() -> None:
    """Ten requests each, in a batch of 80."""
    observed = Observed()
    observed.activity.observe([observed.answered(a_request("abcd")) for _ in range(80)])
    (hottest,) = observed.activity.prefixes.hottest(1, 100.0)

    assert 80 * 0.6931471805599453 / 5 == pytest.approx(hottest.per_minute)


async def test_minutes_end_until_the_task_is_canceled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute lasts no time here."""
    monkeypatch.setattr("gateway.telemetry.caches.cache_activity.MINUTE_S", 0.0)
    observed = Observed()
    running = asyncio.create_task(observed.activity.run())
    async with asyncio.timeout(60):
        while len(observed.activity.history.minutes("tiny", "a")) < 3:
            await asyncio.sleep(0)
    running.cancel()

    assert 3 <= len(observed.activity.history.minutes("tiny", "a"))


def test_prefixes_of_a_former_key_are_forgotten() -> None:
    """Under another key, the same text has other hashes, so the map would show what no worker holds."""
    observed = Observed()
    request = a_request(TEXT)
    for _ in range(3):
        observed.activity.observe([observed.answered(request, usage=Usage(256, 1, 0))])
    before = observed.activity.history.peek("tiny", "a").recomputed
    assert len(observed.activity.prefixes) > 0
    observed.activity.forget_prefixes()
    observed.activity.observe([observed.answered(request, usage=Usage(256, 1, 0))])

    assert before == observed.activity.history.peek("tiny", "a").recomputed > 0
    assert 2 == len(observed.activity.prefixes)


def test_words_come_from_recorded_prompts() -> None:
    observed = Observed(words=PrefixWords(lambda team: team == "blue", block_bytes=64))
    request = a_request(TEXT)
    observed.activity.observe(
        [observed.recorded(request, "blue", "Be brief."), observed.answered(request, team="blue")]
    )
    words = observed.activity.words

    assert words is not None
    assert "Be brief." == words.find(request.prefix)
    observed.activity.forget_prefixes()
    assert words.find(request.prefix) is None


def test_requests_that_are_not_in_the_sample_hide_words() -> None:
    observed = Observed(words=PrefixWords(lambda team: team == "blue", block_bytes=64))
    request = a_request(TEXT)
    completed = [observed.recorded(request, "blue", "Be brief.")] * (2 * MAX_PER_BATCH)
    completed[1] = observed.answered(request, team="red")
    observed.activity.observe(completed)
    (prefix,) = observed.activity.prefixes.hottest(10, observed.clock.now)

    assert ["blue"] == list(prefix.teams)
    assert observed.activity.words is not None
    assert observed.activity.words.find(request.prefix) is None
