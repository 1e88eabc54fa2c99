from gateway.protocol.usage import Usage


def test_cached_tokens_may_be_unknown() -> None:
    """None differs from zero: nothing is concluded from it."""
    assert Usage(9, 4, None) == Usage(prompt_tokens=9, completion_tokens=4)
    assert Usage(9, 4) != Usage(9, 4, 0)
