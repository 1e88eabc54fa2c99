import random
import statistics

import pytest

from benchmarks.replay.agent_groups import BLOCK_TOKENS, GROUP_SIZE, LogNormal, generated, shared_blocks
from replay.trace import Recorded, Trace

TRACE = generated(1, 20)


def sizes(trace: Trace) -> list[int]:
    agents = {(request.group, request.session) for request in trace.requests if request.group is not None}
    groups = [group for group, _ in agents]
    return [groups.count(group) for group in set(groups)]


def test_a_seed_gives_the_same_trace() -> None:
    assert generated(1, 20) == TRACE
    assert generated(2, 20) != TRACE


def test_group_sizes_have_the_median_and_the_90th_percentile() -> None:
    """Before they are rounded, and up to the limit."""
    rng = random.Random(1)
    drawn = sorted(GROUP_SIZE.draw(rng) for _ in range(10_000))

    assert pytest.approx(7, rel=0.05) == statistics.median(drawn)
    assert pytest.approx(51, rel=0.1) == drawn[9000]
    assert (2.0, 96.0) == (drawn[0], drawn[-1])


def test_a_distribution_has_the_moments_that_it_is_made_of() -> None:
    rng = random.Random(1)
    distribution = LogNormal.of_moments(1_500, 1_200, 0, 10**9)
    drawn = [distribution.draw(rng) for _ in range(50_000)]

    assert pytest.approx(1_500, rel=0.02) == statistics.fmean(drawn)
    assert pytest.approx(1_200, rel=0.1) == statistics.stdev(drawn)


def test_every_spawned_group_has_its_sub_agents() -> None:
    spawned = [request.spawns for request in TRACE.requests if request.spawns is not None]

    assert set(spawned) == set(shared_blocks(TRACE))
    assert len(spawned) == len(set(spawned))
    assert all(2 <= size <= 96 for size in sizes(TRACE))


def test_sub_agents_of_a_group_share_a_long_prefix() -> None:
    """At least the system prompt of 32 blocks and 2,000 tokens, and 44,000 tokens on average."""
    shared = list(shared_blocks(TRACE).values())

    assert 35 <= min(shared)
    assert pytest.approx(44_000, rel=0.2) == statistics.fmean(shared) * BLOCK_TOKENS


def test_prompts_grow_by_their_answers() -> None:
    """A request begins with the blocks of the request before it, and of the answer to that."""
    before: dict[str | None, Recorded] = {}
    for request in TRACE.requests:
        if request.session in before:
            blocks = before[request.session].blocks + before[request.session].answer_blocks
            assert blocks == request.blocks[: len(blocks)]
        assert len(request.blocks) == request.prompt_tokens // BLOCK_TOKENS
        before[request.session] = request


def test_sub_agents_follow_their_parent() -> None:
    """The first session has all that begins with its name."""
    one = TRACE.part(0, 1).requests

    assert {"0"} == {(request.session or "").split("/")[0] for request in one}
    assert sum((request.session or "").split("/")[0] == "0" for request in TRACE.requests) == len(one)
