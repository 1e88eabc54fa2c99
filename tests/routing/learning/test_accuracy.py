from routing.learning.accuracy import AGREEMENTS, Accuracy, Clearings


def after(*pairs: tuple[float, float]) -> Accuracy:
    """Accuracy after requests with predicted and reported tokens."""
    accuracy = Accuracy()
    for predicted, reported in pairs:
        accuracy.learn(predicted=predicted, reported=reported)
    return accuracy


def test_nothing_is_held_against_a_worker_of_which_nothing_is_known() -> None:
    """Requests of which nothing was cached, as predicted, are no evidence either."""
    assert (1.0, 1.0, False) == seen(Accuracy())
    assert (1.0, 1.0, False) == seen(after((0.0, 0.0)))


def seen(accuracy: Accuracy) -> tuple[float, float, bool]:
    return round(accuracy.value, 3), round(accuracy.correction, 3), accuracy.is_unreliable


def test_right_predictions_are_accurate() -> None:
    """However many."""
    assert (1.0, 1.0, False) == seen(after(*[(2000.0, 2000.0)] * 10))


def test_a_worker_that_has_half_of_what_is_predicted_is_corrected() -> None:
    """The value is the share that agrees; it is not yet a lie."""
    assert (0.5, 0.5, False) == seen(after(*[(2000.0, 1000.0)] * 10))


def test_a_worker_that_has_more_than_is_predicted_is_not_multiplied() -> None:
    """A prediction of 0 cannot be corrected by a factor; the value shows that something is wrong."""
    assert (0.25, 1.0, True) == seen(after(*[(500.0, 2000.0)] * 10))


def test_little_evidence_changes_nothing_but_the_value() -> None:
    """One short request may be wrong for reasons that pass."""
    assert (0.0, 1.0, False) == seen(after((2000.0, 0.0)))


def test_an_index_that_lies_is_found_out_and_believed_again_when_it_has_proved_itself() -> None:
    """It takes more to be believed again than to be believed still."""
    accuracy = after(*[(2000.0, 0.0)] * 10)
    assert accuracy.is_unreliable

    states = []
    for _ in range(60):
        accuracy.learn(predicted=2000.0, reported=2000.0)
        states.append((accuracy.value > 0.5, accuracy.is_unreliable))

    assert (True, True) in states
    assert (True, False) == states[-1]
    assert accuracy.value > 0.8


def test_what_is_forgotten_is_not_held_against_the_next_engine() -> None:
    """It starts as one of which nothing is known."""
    accuracy = after(*[(2000.0, 0.0)] * 10)
    accuracy.forget()

    assert (1.0, 1.0, False) == seen(accuracy)


def test_the_usual_outcome_is_that_of_most_requests() -> None:
    """One prompt of three is missing, or two of three; a hit that is a tenth too long is right."""
    right, missing, nearly = (2000.0, 2000.0), (2000.0, 0.0), (2000.0, 1800.0)

    assert [True, True, False, True] == [
        after(*pairs).is_usually_right
        for pairs in ([], [right, missing, nearly] * 9, [missing, right, missing] * 9, [nearly])
    ]


def test_predictions_are_proven_by_enough_that_came_true() -> None:
    """One wrong prediction, or a tenth of many, is not enough."""
    assert [False, False, True] == [
        after(*pairs).is_proven for pairs in ([(2000.0, 2000.0)], [(2000.0, 1700.0)] * 9, [(2000.0, 1900.0)] * 9)
    ]


def judged(clearings: Clearings, *pairs: tuple[float, float]) -> list[str]:
    return [clearings.judge(predicted=predicted, reported=reported) for predicted, reported in pairs]


TRUE, GONE, HALF, NEW = (100.0, 100.0), (100.0, 0.0), (100.0, 30.0), (0.0, 0.0)


def test_one_prompt_that_is_gone_is_no_evidence() -> None:
    """It was evicted, or the cache was cleared: when it comes again it is there."""
    assert ["forgive", "learn", "learn"] == judged(Clearings(), GONE, TRUE, TRUE)


def test_two_in_a_row_are_a_cache_that_was_cleared() -> None:
    """Requests without a prediction make no difference."""
    assert ["learn", "forgive", "learn", "cleared", "learn"] == judged(Clearings(), TRUE, GONE, NEW, GONE, GONE)


def test_an_index_that_is_wrong_is_not_taken_for_a_cache_that_is_cleared_again_and_again() -> None:
    """It takes ten right predictions before a wrong one is taken for something else."""
    clearings = Clearings()
    assert ["forgive", "cleared"] == judged(clearings, GONE, GONE)
    assert ["learn"] * 20 == judged(clearings, *[GONE, TRUE] * 4, *[TRUE] * 4, *[GONE] * 8)
    judged(clearings, *[TRUE] * AGREEMENTS)
    assert ["forgive", "learn"] == judged(clearings, GONE, HALF)


def test_a_part_is_neither_gone_nor_there() -> None:
    """It leaves the suspicion as it is."""
    assert ["forgive", "learn", "cleared"] == judged(Clearings(), GONE, HALF, GONE)
