from gateway.telemetry.shapes.shape import Run, RunTable, Steps


def test_spans_follow_the_runs_of_a_prompt() -> None:
    """Two steps of the first prompt, and three of its own."""
    table = RunTable()
    table.add(Run(1, 3, 0, 0))
    table.add(Run(4, 3, 2, 2))
    steps = Steps(table, parent=2, shared=2, first=4, new=3)

    assert [(0, 1), (2, 4)] == steps.spans()
    assert (5, 6) == (steps.count, steps.last)


def test_a_prompt_without_new_steps_ends_where_it_is_known() -> None:
    table = RunTable()
    table.add(Run(1, 3, 0, 0))
    steps = Steps(table, parent=2, shared=2, first=4, new=0)

    assert [(0, 1)] == steps.spans()
    assert (2, 2) == (steps.count, steps.last)


def test_a_prompt_without_steps_has_no_spans() -> None:
    assert [] == Steps(RunTable(), parent=0, shared=0, first=1, new=0).spans()


def test_steps_in_a_deleted_file_stay_shared() -> None:
    """Steps 10 and 12 of a lost run are two steps apart: what they share has the same numbers."""
    table = RunTable()
    table.add(Run(100, 2, 10, 5))
    table.add(Run(102, 1, 12, 7))
    one = Steps(table, parent=10, shared=5, first=100, new=2)
    other = Steps(table, parent=12, shared=7, first=102, new=1)

    assert [(0, 6), (5, 100)] == one.spans()
    assert [(0, 6), (7, 102)] == other.spans()
