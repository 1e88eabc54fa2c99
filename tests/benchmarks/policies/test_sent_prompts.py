from benchmarks.policies.sent_prompts import SentPrompts
from tests.benchmarks.policies.examples import an_ask


def test_what_was_ever_sent_is_taken_for_held() -> None:
    """From the moment of sending on; evictions are not heard of."""
    index, ask = SentPrompts(2), an_ask(1, 2)
    index.sent(1, ask)
    index.first_token(1, ask)
    index.finished(1, ask)
    index.removed(1, [1, 2])

    assert [0, 2] == index.hits(an_ask(1, 2, 3))


def test_what_engines_tell_is_not_heard() -> None:
    """A prompt that somebody else sent there is unknown."""
    index = SentPrompts(2)
    index.stored(0, [1])

    assert [0, 0] == index.hits(an_ask(1))
