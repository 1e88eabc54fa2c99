from gateway.proxy.continuation.prompt_cache import PromptCache


def test_what_the_worker_that_began_reported_counts_most() -> None:
    """Before its own prediction, and before what another worker reports."""
    cache = PromptCache()
    cache.reported(5)
    cache.predicted(7 / 9)

    assert [5, 5] == [cache.tokens(9, None), cache.tokens(9, 8)]


def test_a_prediction_stands_in_for_a_report() -> None:
    """Where the engines report cached tokens at all. It is a share of the prompt."""
    cache = PromptCache()
    cache.predicted(7 / 9)

    assert [None, 7, 5] == [cache.tokens(9, None), cache.tokens(9, 0), cache.tokens(6, 0)]


def test_without_either_the_last_report_counts() -> None:
    """For no more than the prompt."""
    assert [4, 3, None] == [PromptCache().tokens(9, 4), PromptCache().tokens(3, 4), PromptCache().tokens(3, None)]


def test_a_worker_that_begins_again_has_a_hit_of_its_own() -> None:
    """Nothing of the former one is kept."""
    cache = PromptCache()
    cache.reported(5)
    cache.predicted(7 / 9)
    cache.restart()

    assert [None, 2] == [cache.tokens(9, None), cache.tokens(9, 2)]
