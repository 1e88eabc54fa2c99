import pytest

from benchmarks.policies.account import Account
from tests.benchmarks.policies.examples import a_setup, an_account, an_ask


def test_the_turn_of_a_prompt_shrinks_and_the_others_wait() -> None:
    account = an_account(pending=[500, 300])

    assert 0.8 == pytest.approx(account.backlog_s(0.0))
    assert 0.6 == pytest.approx(account.backlog_s(0.2))
    assert 600 == pytest.approx(account.queued_tokens(0.2))
    assert 800 == account.sent_tokens


def test_a_turn_that_takes_longer_than_believed_takes_nothing_from_the_next() -> None:
    """After nine seconds there still is no first token: the second prompt is whole."""
    account = an_account(pending=[500, 300])

    assert 0.3 == pytest.approx(account.backlog_s(9.0))
    assert 300 == pytest.approx(account.queued_tokens(9.0))


def test_a_first_token_begins_the_next_turn() -> None:
    """The second prompt is computed from 0.4 s on."""
    account = Account(a_setup())
    first = an_ask(1, 2, 3, 4, 5)
    account.send(first, 500, 0.0)
    account.send(an_ask(6, 7, 8), 300, 0.0)
    account.first_token(first, 0.4)

    assert (1, 1, 2) == (account.pending, account.decodes, account.requests)
    assert 0.3 == pytest.approx(account.backlog_s(0.4))
    assert 0.2 == pytest.approx(account.backlog_s(0.5))


def test_a_turn_begins_with_the_request_where_nothing_waits() -> None:
    """An idle worker has had no head start."""
    account = Account(a_setup())
    account.send(an_ask(1, 2), 200, 5.0)

    assert 0.2 == pytest.approx(account.backlog_s(5.0))


def test_every_prompt_has_its_fixed_cost() -> None:
    """Two of 0.1 s beside 0.2 s and 0.3 s; half of the first turn of 0.3 s leaves half of its tokens."""
    account = Account(a_setup(fixed_s=0.1))
    account.send(an_ask(1, 2), 200, 0.0)
    account.send(an_ask(1, 2, 3), 300, 0.0)

    assert 0.7 == pytest.approx(account.backlog_s(0.0))
    assert 400 == pytest.approx(account.queued_tokens(0.15))


def test_a_backlog_falls_with_time_as_far_as_its_turn_reaches() -> None:
    """0.8 s fall to 0.3 s by themselves, but not below: for that the first token has to come."""
    account = an_account(pending=[500, 300])

    assert 0.2 == pytest.approx(account.backlog_falls_to(0.6, 0.0))
    assert 0.5 == pytest.approx(account.backlog_falls_to(0.3, 0.1))
    assert account.backlog_falls_to(0.2, 0.1) is None
    assert 0.7 == account.backlog_falls_to(0.6, 0.7)


def test_blocks_are_counted_from_sending_to_the_end() -> None:
    """In use, as engines pin them, are those of the turn and of the decodes; those of the second in line are not."""
    account = Account(a_setup())
    first, second, third = an_ask(1, 2), an_ask(3), an_ask(4, 5, 6, 7)
    for ask in (first, second, third):
        account.send(ask, ask.prompt_tokens, 0.0)

    assert (7, 2) == (account.blocks, account.blocks_in_use)
    account.first_token(first, 1.0)
    assert (7, 3) == (account.blocks, account.blocks_in_use)
    account.first_token(second, 2.0)
    account.finish(first)
    assert (5, 5) == (account.blocks, account.blocks_in_use)


def test_nothing_is_left_when_all_has_ended() -> None:
    """Not a rounding error of a token, whatever the figures."""
    account = Account(a_setup())
    asks = [an_ask(tokens=7) for _ in range(10)]
    for ask in asks:
        account.send(ask, 0.1, 0.0)
    for ask in asks:
        account.first_token(ask, 1.0)
        account.finish(ask)

    assert (0, 0, 0.0, 0.0) == (account.requests, account.blocks, account.sent_tokens, account.backlog_s(1.0))
