from benchmarks.policies.shadow import Shadow
from tests.benchmarks.policies.examples import an_ask


def test_a_prompt_is_held_from_sending_on() -> None:
    """At its worker."""
    index = Shadow(2, capacity=10)
    index.sent(1, an_ask(1, 2))

    assert [0, 2] == index.hits(an_ask(1, 2, 3))


def test_the_tail_of_the_oldest_prompt_is_evicted_first() -> None:
    """Room for four blocks: of the first prompt of three, one is lost for a second of two."""
    index = Shadow(1, capacity=4)
    index.sent(0, an_ask(1, 2, 3))
    index.sent(0, an_ask(4, 5))

    assert [2] == index.hits(an_ask(1, 2, 3))
    assert [2] == index.hits(an_ask(4, 5))


def test_a_prompt_was_last_used_when_its_answer_ended() -> None:
    """The second was sent later, but ended sooner: it makes room for the third."""
    index = Shadow(1, capacity=4)
    first, second = an_ask(1, 2), an_ask(3, 4)
    index.sent(0, first)
    index.sent(0, second)
    index.finished(0, second)
    index.finished(0, first)
    index.sent(0, an_ask(5, 6))

    assert [2] == index.hits(first)
    assert [0] == index.hits(second)


def test_what_engines_tell_is_not_heard() -> None:
    """It has no events, neither good ones nor bad ones."""
    index, ask = Shadow(1, capacity=4), an_ask(1)
    index.sent(0, ask)
    index.first_token(0, ask)
    index.removed(0, [1])
    index.stored(0, [2])

    assert [1] == index.hits(ask)
    assert [0] == index.hits(an_ask(2))
