from benchmarks.picker.command import CASES, CASES_WITH_KEYS, parse_arguments


def test_keys_are_measured_in_cases_without_keys() -> None:
    """Otherwise their cost would have nothing to compare with."""
    assert {*CASES_WITH_KEYS} <= {*CASES}


def test_a_run_for_the_record_takes_minutes() -> None:
    arguments = parse_arguments([])

    assert (3, 3.0, False, False) == (
        arguments.rounds,
        arguments.seconds,
        arguments.sources,
        arguments.without_envoy,
    )
