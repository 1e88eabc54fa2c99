from routing.warmup import WarmUp


def test_a_fresh_worker_gets_four_requests_at_first() -> None:
    """The fifth would come after other workers."""
    warmup = WarmUp()

    assert [True, True, True, True, False] == [warmup.admits(in_flight) for in_flight in range(5)]


def test_each_answer_opens_the_window_by_one() -> None:
    """After three answers seven may be in flight."""
    warmup = WarmUp()
    for _ in range(3):
        warmup.succeeded()

    assert warmup.admits(6)
    assert not warmup.admits(7)


def test_after_28_answers_there_is_no_limit() -> None:
    """From 4 to 32 by one each."""
    warmup = WarmUp()
    for _ in range(27):
        warmup.succeeded()

    assert not warmup.admits(31)

    warmup.succeeded()

    assert warmup.admits(10_000)


def test_it_can_start_again() -> None:
    """A worker that comes back is cold, however warm it was."""
    warmup = WarmUp(first=1, last=2)
    warmup.succeeded()
    warmup.succeeded()
    warmup.restart()

    assert warmup.admits(0)
    assert not warmup.admits(1)
