from simulator.event_log import Batch, EventLog


def test_batches_are_numbered() -> None:
    """From the first number on; each can be replayed."""
    log = EventLog()

    assert [Batch(0, b"a"), Batch(1, b"b")] == [log.add(b"a"), log.add(b"b")]
    assert [Batch(1, b"b")] == list(log.since(1))
    assert [] == list(log.since(2))
    assert (2, 2) == (log.next_sequence, log.kept)


def test_numbers_may_begin_with_one() -> None:
    assert Batch(1, b"a") == EventLog(first=1).add(b"a")


def test_the_oldest_are_forgotten() -> None:
    """No more are kept than there is room for."""
    log = EventLog(limit=2)
    for payload in (b"a", b"b", b"c"):
        log.add(payload)

    assert [Batch(1, b"b"), Batch(2, b"c")] == list(log.since(0))


def test_a_lost_batch_uses_up_its_number() -> None:
    """It can be replayed, or cannot."""
    log = EventLog()
    log.lose(1, can_be_replayed=True)
    assert (1, None, Batch(1, b"b")) == (log.to_lose, log.add(b"a"), log.add(b"b"))
    log.lose(1, can_be_replayed=False)
    assert (None, Batch(3, b"d")) == (log.add(b"c"), log.add(b"d"))

    assert [0, 1, 3] == [batch.sequence for batch in log.since(0)]
    assert 0 == log.to_lose


def test_losing_can_be_ended() -> None:
    log = EventLog()
    log.lose(5, can_be_replayed=True)
    log.lose(0, can_be_replayed=True)

    assert Batch(0, b"a") == log.add(b"a")


def test_forgetting_keeps_the_numbers() -> None:
    """Only what was published can no more be replayed."""
    log = EventLog()
    log.add(b"a")
    log.forget()

    assert ([], 1) == (list(log.since(0)), log.next_sequence)


def test_a_new_life_begins_with_the_first_number() -> None:
    """Nothing is left of the last one."""
    log = EventLog(first=1)
    log.add(b"a")
    log.lose(3, can_be_replayed=True)
    log.restart()

    assert Batch(1, b"b") == log.add(b"b")
    assert [Batch(1, b"b")] == list(log.since(0))
