from pathlib import Path

import pytest

from benchmarks.policies.shared_cache import ToTheOne
from benchmarks.replay.entrant import ENTRANTS
from benchmarks.scenarios.arrivals import ConstantConcurrency
from engine_model.engine import EngineError
from replay.entrant import Entrant
from replay.policy import Ask, Usage
from replay.run import Run
from replay.setting import Setting
from replay.trace import Recorded, Trace, read_trace
from tests.replay.examples import answers, asked, session, three, written


def test_times_and_hits_are_the_engine_s(tmp_path: Path) -> None:
    """10 ms and 10,000 uncached tokens per second; the second prompt finds one block, the third two."""
    found = answers(Setting("", three(tmp_path), 1, 100))

    assert [0, 1, 2] == [answer.arrival for answer in found]
    assert [0, 512, 1024] == [answer.cached_tokens for answer in found]
    assert pytest.approx([0.12, 0.0688, 0.0176]) == [answer.ttft_s for answer in found]


def test_a_faster_worker_takes_less_time(tmp_path: Path) -> None:
    """1,100 tokens in 0.12 s at the first worker, in half of it at the second; 20 further tokens likewise."""
    path = written(tmp_path, *(asked(10_000 * number, 1100, [3 * number], output=21) for number in range(2)))
    found = answers(Setting("", path, 2, 100, worker_speeds=(1.0, 2.0)), "round_robin")

    assert [0, 1] == [answer.worker for answer in found]
    assert pytest.approx([0.12, 0.06]) == [answer.ttft_s for answer in found]
    assert pytest.approx([0.24, 0.12]) == [answer.ended_at - answer.arrived_at - answer.ttft_s for answer in found]


@pytest.mark.parametrize(("strategy", "waited_s"), [("prefix_aware", 0.0), ("kv_aware", 1.01)])
def test_ttft_counts_from_arrival(tmp_path: Path, strategy: str, waited_s: float) -> None:
    """Two prompts at nearly the same moment: the second waits for the first, in the engine or in the router."""
    path = written(tmp_path, asked(0, 10_000, range(20)), asked(1, 10_000, range(100, 120)))
    first, second = answers(Setting("", path, 1, 100, rate_error=1.0), strategy)

    assert pytest.approx(1.01) == first.ttft_s
    assert 0.0 == first.waited_s
    assert pytest.approx(2.02, abs=0.1) == second.ttft_s
    assert pytest.approx(waited_s, abs=0.1) == second.waited_s


@pytest.mark.parametrize("strategy", ["prefix_aware", "kv_aware"])
def test_a_prompt_is_asked_again_where_it_was_asked_before(tmp_path: Path, strategy: str) -> None:
    """The repeated prompt goes to the worker that computed it."""
    found = answers(Setting("", three(tmp_path), 4, 100), strategy)

    assert found[1].worker == found[2].worker
    assert 1024 == found[2].cached_tokens


def test_round_robin_does_not(tmp_path: Path) -> None:
    """Three requests, three workers, no hit."""
    found = answers(Setting("", three(tmp_path), 4, 100), "round_robin")

    assert 3 == len({answer.worker for answer in found})
    assert 0 == sum(answer.cached_tokens for answer in found)


@pytest.mark.parametrize("strategy", ENTRANTS)
def test_every_request_is_answered_once(tmp_path: Path, strategy: str) -> None:
    """All there are, at a load that they cannot bear, with events that are late or lost."""
    lines = (asked(20 * n, 2000, [n % 7, 100 + n % 31, 1000 + n, 2000 + n], output=20) for n in range(150))
    setting = Setting("", written(tmp_path, *lines), 3, 60, event_lag_s=0.3, event_loss=0.2)
    found = answers(setting, strategy)

    assert list(range(150)) == sorted(answer.arrival for answer in found)
    assert all(answer.ttft_s > 0.01 for answer in found)
    assert all(0.0 <= answer.waited_s < answer.ttft_s for answer in found)


@pytest.mark.parametrize("strategy", ["prefix_aware", "kv_aware"])
def test_the_same_seed_gives_the_same_answers(tmp_path: Path, strategy: str) -> None:
    """A figure can be made again, whatever events are lost; another seed makes another."""
    path = written(tmp_path, *(asked(100 * number, 1000, [number % 9, 900 + number]) for number in range(50)))
    setting = Setting("", path, 8, 100, event_loss=0.3)
    first, again, other = [answers(setting, strategy, seed=seed) for seed in (1, 1, 2)]

    assert first == again
    assert first != other


def test_a_closed_loop_asks_every_request_of_every_session(tmp_path: Path) -> None:
    """Three sessions of two requests each for two users; the second of a session finds the first one's blocks."""
    path = written(tmp_path, *(session(number) for number in range(3)))
    found = answers(Setting("", path, 2, 100, users=2))

    assert 6 == len(found)
    assert 3 == sum(answer.begins_session for answer in found)
    assert 3 * 2048 == sum(answer.cached_tokens for answer in found)


class Ends(ToTheOne):
    """Notes which answers end a session."""

    def __init__(self, ends: list[bool]) -> None:
        super().__init__()
        self._ends = ends

    def finished(self, ask: Ask, usage: Usage, now: float) -> None:
        self._ends.append(usage.ends_session)


def test_the_last_answer_of_a_session_says_so(tmp_path: Path) -> None:
    """Two sessions, one after the other; requests without a session end none."""
    in_sessions, alone = list[bool](), list[bool]()
    path = written(tmp_path, *(session(number) for number in range(2)))
    Run(read_trace(path), Setting("", path, 1, 100), Entrant(lambda _: Ends(in_sessions)), seed=1).answers()
    path = three(tmp_path)
    Run(read_trace(path), Setting("", path, 1, 100), Entrant(lambda _: Ends(alone)), seed=1).answers()

    assert [False, True, False, True] == in_sessions
    assert [False, False, False] == alone


def test_a_prompt_that_no_cache_can_hold_ends_the_replay(tmp_path: Path) -> None:
    """Three blocks of 512 tokens are needed, there are two."""
    with pytest.raises(EngineError, match="request 0 needs 3 blocks, but the cache has only 2"):
        answers(Setting("", three(tmp_path), 1, 2))


def test_blocks_of_an_answer_are_found_by_who_asks_for_them() -> None:
    """Two blocks of prompt and one that the answer fills; its last token's own KV is never computed."""
    first = Recorded(0, "a", 0.0, 200, 101, (1, 2), answer_blocks=(3,))
    second = Recorded(1, "a", 1.0, 350, 1, (1, 2, 3))
    trace = Trace(100, True, [first, second])
    found = Run(trace, Setting("", Path(), 1, 10), ENTRANTS["kv_aware"], seed=1).answers()

    assert [0, 300] == [answer.cached_tokens for answer in found]


def test_an_answer_says_when_it_was_asked_for_and_given(tmp_path: Path) -> None:
    """The first prompt's 21 tokens: 12 ms each after the first."""
    first, _, third = answers(Setting("", three(tmp_path), 1, 100))

    assert pytest.approx(first.arrived_at + first.ttft_s + 20 * 0.012) == first.ended_at
    assert (21, 1) == (first.output_tokens, third.output_tokens)
    assert third.ended_at == third.arrived_at + third.ttft_s


def test_somebody_else_may_say_who_asks_when(tmp_path: Path) -> None:
    """A workload in place of that of the trace: one request after the other, whatever the trace's times are."""
    setting = Setting("", three(tmp_path), 1, 100)
    trace = read_trace(setting.trace)
    workload = ConstantConcurrency(trace.requests, in_flight=1)
    found = Run(trace, setting, ENTRANTS["round_robin"], seed=1, workload=workload).answers()

    assert [0.0, found[0].ended_at, found[1].ended_at] == [answer.arrived_at for answer in found]


def test_prompts_return_to_the_host_tiers_that_hold_them(tmp_path: Path) -> None:
    """Eight prompts take turns on four GPUs with room for one each: only the events of host tiers show who has them."""
    prompts = [[10 * number, 10 * number + 1] for number in range(8)]
    lines = [asked(5_000 * turn, 1100, prompts[turn % 8]) for turn in range(40)]
    setting = Setting("", written(tmp_path, *lines), 4, 3, host_blocks=60)
    cached = {
        strategy: [answer.cached_tokens for answer in answers(setting, strategy)]
        for strategy in ("kv_aware", "kv_aware_blind")
    }

    assert [0] * 8 + [1024] * 32 == cached["kv_aware"]
    assert sum(cached["kv_aware_blind"]) < 0.8 * sum(cached["kv_aware"])


def test_a_load_takes_time(tmp_path: Path) -> None:
    """1,024 of 1,100 tokens at 51,200 tokens per second, and the rest is computed."""
    lines = [asked(5_000 * turn, 1100, [10 * (turn % 2), 10 * (turn % 2) + 1]) for turn in range(3)]
    setting = Setting("", written(tmp_path, *lines), 1, 3, host_blocks=60, load_tokens_per_s=51_200.0)
    found = answers(setting, "kv_aware")[-1]

    assert 1024 == found.cached_tokens
    assert pytest.approx(0.02 + 0.01 + 0.0076) == found.ttft_s


def test_pulls_need_the_timing_model_that_has_them() -> None:
    with pytest.raises(ValueError, match="pulls require timing fifo, not chunked"):
        Setting("", Path("x"), 1, 1, timing="chunked", pulls=True)
