from gateway.usage import Usage


def test_an_engine_that_does_not_tell_what_was_cached_told_nothing_of_it() -> None:
    """None is not zero: nothing is learnt from it."""
    assert Usage(9, 4, None) == Usage(prompt_tokens=9, completion_tokens=4)
    assert Usage(9, 4) != Usage(9, 4, 0)
