from gateway.backends.bedrock.learnt import MOST_FIELDS, Learnt, Unsupported


def test_what_is_known_is_not_new() -> None:
    """It is said once."""
    learnt = Learnt()

    assert [True, False, True] == [
        learnt.leave_out(refused) for refused in (Unsupported("a"), Unsupported("a"), Unsupported("a", "b"))
    ]


def test_a_limit_only_falls() -> None:
    """Two requests may be refused in either order."""
    learnt = Learnt()

    assert [True, False, False, True] == [learnt.lower_output(tokens) for tokens in (8192, 8192, 9000, 4096)]
    assert 4096 == learnt.max_output_tokens


def test_it_is_bounded() -> None:
    """Whatever a target refuses."""
    learnt = Learnt()
    for number in range(2 * MOST_FIELDS):
        learnt.leave_out(Unsupported(f"field{number}"))

    assert MOST_FIELDS == len(learnt.unsupported)
