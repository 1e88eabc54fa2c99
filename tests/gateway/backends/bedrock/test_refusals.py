from gateway.backends.bedrock.refusals import MOST_FIELDS, Refusals, Unsupported


def test_what_is_known_is_not_new() -> None:
    """It is said once."""
    refusals = Refusals()

    assert [True, False, True] == [
        refusals.leave_out(refused) for refused in (Unsupported("a"), Unsupported("a"), Unsupported("a", "b"))
    ]


def test_a_limit_only_falls() -> None:
    """Two requests may be refused in either order."""
    refusals = Refusals()

    assert [True, False, False, True] == [refusals.lower_output(tokens) for tokens in (8192, 8192, 9000, 4096)]
    assert 4096 == refusals.max_output_tokens


def test_it_is_bounded() -> None:
    refusals = Refusals()
    for number in range(2 * MOST_FIELDS):
        refusals.leave_out(Unsupported(f"field{number}"))

    assert MOST_FIELDS == len(refusals.unsupported)
