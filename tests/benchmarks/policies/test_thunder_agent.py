import pytest

from benchmarks.policies.events import Events
from benchmarks.policies.least_requests import LeastRequests
from benchmarks.policies.thunder_agent import ThunderAgent
from replay.policy import Ask, Usage
from tests.benchmarks.policies.examples import a_setup, an_ask


def a_policy(workers: int = 1, *, capacity_blocks: int = 10) -> ThunderAgent:
    """Ten blocks of 100 tokens, of which a program with a prompt of n blocks and a tail of ten needs n + 1.1."""
    setup = a_setup(workers, capacity_blocks=capacity_blocks)
    return ThunderAgent(setup, Events(workers), LeastRequests(setup.rng))


def submitted(policy: ThunderAgent, ask: Ask, now: float = 0.0) -> list[tuple[Ask, int]]:
    policy.submit(ask, now)
    return policy.poll(now)


def answered(policy: ThunderAgent, ask: Ask, now: float = 0.0, *, tokens: int = 1, ends: bool = False) -> None:
    policy.first_token(ask, now)
    policy.finished(ask, Usage(0, tokens, ends), now)


def a_prompt(session: str, *blocks: int) -> Ask:
    return an_ask(*blocks, session=session)


def test_a_program_stays_with_its_worker() -> None:
    """Though the other is idle."""
    policy, first, second = a_policy(2), a_prompt("a", 1), a_prompt("a", 1, 2)
    ((_, worker),) = submitted(policy, first)
    answered(policy, first)

    assert [(second, worker)] == submitted(policy, second, 1.0)


def test_a_new_program_goes_where_the_fewest_tokens_are_in_use() -> None:
    policy = a_policy(2)
    ((_, first),) = submitted(policy, a_prompt("a", 1, 2))
    ((_, second),) = submitted(policy, a_prompt("b", 3))

    assert 1 - first == second
    assert [second] == [worker for _, worker in submitted(policy, a_prompt("c", 4))]


def test_a_program_without_room_waits_for_a_check_that_finds_some() -> None:
    """6.1 and 6.1 of ten blocks; the first ends after six seconds, and the next check is after ten."""
    policy, first, second = a_policy(), a_prompt("a", 1, 2, 3, 4, 5), a_prompt("b", 6, 7, 8, 9, 10)

    assert [(first, 0)] == submitted(policy, first)
    assert [] == submitted(policy, second, 1.0)
    assert 5.0 == policy.next_poll_at(1.0)
    assert [] == policy.poll(5.0)
    answered(policy, first, 6.0, ends=True)
    assert [] == policy.poll(6.0)
    assert 10.0 == policy.next_poll_at(6.0)
    assert [(second, 0)] == policy.poll(10.0)
    assert policy.next_poll_at(10.0) is None


def test_shared_blocks_take_room_once() -> None:
    """Five shared blocks and 2.1 blocks for each: 9.2 of ten, where two of 7.1 would not fit."""
    policy = a_policy()
    first, second = a_prompt("a", 1, 2, 3, 4, 5, 10), a_prompt("b", 1, 2, 3, 4, 5, 20)

    assert [(first, 0)] == submitted(policy, first)
    assert [(second, 0)] == submitted(policy, second)


def test_no_new_program_overtakes_one_that_waits() -> None:
    """There would be room for the third."""
    policy = a_policy()
    submitted(policy, a_prompt("a", 1, 2, 3, 4, 5))
    submitted(policy, a_prompt("b", 6, 7, 8, 9, 10))

    assert [] == submitted(policy, a_prompt("c", 11))


def grown(policy: ThunderAgent, *sessions: str, base: int = 0) -> None:
    """Each of *sessions* asks with one block more than the one before, gets its answer and goes on at a tool."""
    for number, session in enumerate(sessions):
        ask = a_prompt(session, *range(base + 100 * number, base + 100 * number + number + 1))
        assert [(ask, 0)] == submitted(policy, ask)
        answered(policy, ask)


def test_the_smallest_program_at_a_tool_pauses_first() -> None:
    """2.1 and 3.1 of ten blocks; the second grows to 8.1, so the first pauses at the check and waits when it asks."""
    policy = a_policy()
    grown(policy, "a", "b")
    longer = a_prompt("b", *range(100, 107))
    asks_again = a_prompt("a", 0, 1)

    assert [(longer, 0)] == submitted(policy, longer, 1.0)
    assert [] == submitted(policy, asks_again, 6.0)
    answered(policy, longer, 7.0, ends=True)
    assert [(asks_again, 0)] == policy.poll(10.0)


def test_a_program_that_has_asked_pauses_after_its_answer() -> None:
    """Both grow beyond the room while they are under way; the smaller one gets its answer, and then waits."""
    policy = a_policy()
    grown(policy, "a", "b")
    small, large = a_prompt("a", *range(4)), a_prompt("b", *range(100, 107))
    submitted(policy, large, 1.0)
    assert [(small, 0)] == submitted(policy, small, 1.0)
    policy.poll(5.0)
    answered(policy, small, 6.0)
    again = a_prompt("a", *range(4))

    assert [] == submitted(policy, again, 7.0)
    answered(policy, large, 8.0, ends=True)
    assert [(again, 0)] == policy.poll(10.0)


def test_programs_that_wait_enter_before_new_ones() -> None:
    """Room for one of them: the old program has asked again, the new one is smaller."""
    policy = a_policy()
    grown(policy, "a", "b")
    large = a_prompt("b", *range(100, 107))
    submitted(policy, large, 1.0)
    policy.poll(5.0)
    new, old = a_prompt("c", 50, 51, 52, 53), a_prompt("a", *range(6))
    assert [] == submitted(policy, new, 6.0)
    assert [] == submitted(policy, old, 6.0)
    answered(policy, large, 7.0, ends=True)

    assert [(old, 0)] == policy.poll(10.0)


def test_a_program_enters_where_most_room_is() -> None:
    """Workers with 2.1 and 4.1 of ten blocks in use, after both were too full for one of seven."""
    policy = a_policy(2)
    first, second = a_prompt("a", *range(10, 18)), a_prompt("b", *range(20, 28))
    workers = {ask: worker for ask in (first, second) for _, worker in submitted(policy, ask)}
    waits = a_prompt("c", *range(30, 36))
    assert [] == submitted(policy, waits)
    answered(policy, first, 1.0, ends=True)

    assert [(waits, workers[first])] == policy.poll(5.0)


def test_a_request_that_waited_half_an_hour_is_sent_without_room() -> None:
    policy, first, second = a_policy(), a_prompt("a", 1, 2, 3, 4, 5), a_prompt("b", 6, 7, 8, 9, 10)
    submitted(policy, first)
    submitted(policy, second, 1.0)

    assert [] == policy.poll(1800.0)
    assert [(second, 0)] == policy.poll(1805.0)


def test_a_request_without_a_session_is_sent_at_once() -> None:
    """Room or not, where the other rule wants it; it takes no room from programs."""
    policy = a_policy()
    alone, program = an_ask(*range(9)), a_prompt("a", *range(20, 28))

    assert [(alone, 0)] == submitted(policy, alone)
    assert [(program, 0)] == submitted(policy, program)
    answered(policy, alone)


@pytest.mark.parametrize(("tokens", "fits"), [(1, True), (80, True), (81, False)])
def test_an_answer_takes_room(tokens: int, *, fits: bool) -> None:
    """A second program of 4.1 blocks fits beside one of 5.1 unless the first answer took more than what is left."""
    policy, first = a_policy(), a_prompt("a", 1, 2, 3, 4)
    submitted(policy, first)
    answered(policy, first, tokens=tokens)

    assert fits == bool(submitted(policy, a_prompt("b", 11, 12, 13)))
