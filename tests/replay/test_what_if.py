import pytest

from engine_model.engine import EngineError
from replay.trace import Recorded, Trace
from replay.what_if import Alternative, EngineTimes, Replayer, counted
from replay.workload import OpenSessions, SessionStart

ENGINE = EngineTimes(prefill_fixed_s=0.1, prefill_s_per_token=0.001, decode_s=0.01, decode_slope_s=0.0)
BLOCK = 100


def conversation(number: int, *, turns: int, begins_s: float) -> SessionStart:
    """Turns of one more block each, two seconds after the answer before."""
    requests = [
        Recorded(
            100 * number + turn,
            str(number),
            2.0 if turn else 0.0,
            BLOCK * (turn + 2) + 1,
            1,
            tuple(1000 * number + block for block in range(turn + 2)),
        )
        for turn in range(turns)
    ]
    return SessionStart(begins_s, requests)


def replayer(sessions: list[SessionStart], *, repetitions: int = 1) -> Replayer:
    requests = [request for session in sessions for request in session.requests]
    return Replayer(Trace(BLOCK, False, requests), lambda _: OpenSessions(sessions), [ENGINE], repetitions=repetitions)


def test_a_lone_prompt_takes_the_learned_time() -> None:
    """0.1 s, and 201 tokens of 1 ms."""
    (answers,) = replayer([conversation(1, turns=1, begins_s=0.0)]).answers(Alternative("round_robin", 1, 10_000))

    assert [pytest.approx(0.301)] == [answer.ttft_s for answer in answers]


def test_an_engine_without_a_learned_time_per_token_computes_in_the_fixed_time() -> None:
    requests = conversation(1, turns=1, begins_s=0.0)
    engine = EngineTimes(prefill_fixed_s=0.1, prefill_s_per_token=0.0, decode_s=0.01, decode_slope_s=0.0)
    one = Replayer(Trace(BLOCK, False, list(requests.requests)), lambda _: OpenSessions([requests]), [engine])
    (answers,) = one.answers(Alternative("round_robin", 1, 10_000))

    assert [pytest.approx(0.1, abs=0.001)] == [answer.ttft_s for answer in answers]


def test_a_scale_makes_all_work_take_longer() -> None:
    """Twice as long."""
    one = replayer([conversation(1, turns=1, begins_s=0.0)])
    (answers,) = one.answers(Alternative("round_robin", 1, 10_000), 2.0)

    assert [pytest.approx(0.602)] == [answer.ttft_s for answer in answers]


def test_affinity_hits_where_round_robin_misses() -> None:
    """Three turns on two workers: with affinity, the second and third find what the first has left."""
    one = replayer([conversation(1, turns=3, begins_s=0.0)])
    hits = {
        strategy: [answer.cached_tokens for answer in one.answers(Alternative(strategy, 2, 10_000))[0]]
        for strategy in ("prefix_aware", "round_robin")
    }

    assert {"prefix_aware": [0, 200, 300], "round_robin": [0, 0, 200]} == hits


def test_caches_have_the_size_that_is_asked_for() -> None:
    """Nothing of ten sessions is left for their second turns in a cache of five blocks."""
    sessions = [conversation(number, turns=2, begins_s=5.0 * number) for number in range(10)]
    sessions = [SessionStart(each.begins_s / 20, each.requests) for each in sessions]
    one = replayer(sessions)
    hits = [
        sum(answer.cached_tokens for answer in one.answers(Alternative("prefix_aware", 1, tokens))[0])
        for tokens in (500, 100_000)
    ]

    assert hits[0] < 500
    assert 2000 == hits[1]


def test_a_prompt_that_fits_into_no_cache_is_an_error() -> None:
    with pytest.raises(EngineError):
        replayer([conversation(1, turns=1, begins_s=0.0)]).answers(Alternative("round_robin", 1, 200))


def test_the_scale_is_found_with_which_a_replay_agrees() -> None:
    """Measured with engines that take 1.5 times as long as was learned."""
    sessions = [conversation(number, turns=4, begins_s=1.0 * number) for number in range(20)]
    one, recorded = replayer(sessions, repetitions=2), Alternative("prefix_aware", 2, 5000)
    times = [answer.ttft_s for answer in counted(one.answers(recorded, 1.5))]
    scale = one.calibrated(recorded, sum(times) / len(times), lambda _: True)

    assert 1.4 < scale < 1.6


def test_each_repetition_and_each_answer_is_reported() -> None:
    """Two repetitions of three answers."""
    seen: list[int] = []
    sessions = [conversation(1, turns=3, begins_s=0.0)]
    trace = Trace(BLOCK, False, sessions[0].requests)
    counting = Replayer(trace, lambda _: OpenSessions(sessions), [ENGINE], lambda: seen.append(1), repetitions=2)

    assert [3, 3] == [len(answers) for answers in counting.answers(Alternative("prefix_aware", 1, 5000))]
    assert 6 == len(seen)


def test_the_first_tenth_is_not_counted() -> None:
    """Two of twenty requests in each repetition."""
    sessions = [conversation(number, turns=1, begins_s=float(number)) for number in range(20)]
    answers = replayer(sessions, repetitions=2).answers(Alternative("round_robin", 2, 5000))

    assert 36 == len(counted(answers))


def test_without_kv_events_kv_aware_still_finds_what_it_has_sent() -> None:
    """The second and third turn hit: the index predicts what the requests before have left."""
    sessions = [conversation(1, turns=3, begins_s=0.0)]
    trace = Trace(BLOCK, False, sessions[0].requests)
    one = Replayer(trace, lambda _: OpenSessions(sessions), [ENGINE], has_kv_events=False)

    assert [0, 200, 300] == [answer.cached_tokens for answer in one.answers(Alternative("kv_aware", 2, 10_000))[0]]


def test_only_with_kv_events_an_eviction_is_known() -> None:
    """Nothing differs for a strategy that reads no events; kv_aware places differently once caches overflow."""
    sessions = [conversation(number, turns=6, begins_s=0.7 * number) for number in range(40)]
    trace = Trace(BLOCK, False, [request for session in sessions for request in session.requests])

    def ttfts(strategy: str, *, has_kv_events: bool) -> list[float]:
        one = Replayer(trace, lambda _: OpenSessions(sessions), [ENGINE], has_kv_events=has_kv_events)
        return [answer.ttft_s for answer in one.answers(Alternative(strategy, 2, 4000))[0]]

    same = {
        strategy: ttfts(strategy, has_kv_events=True) == ttfts(strategy, has_kv_events=False)
        for strategy in ("prefix_aware", "kv_aware")
    }
    assert {"prefix_aware": True, "kv_aware": False} == same
