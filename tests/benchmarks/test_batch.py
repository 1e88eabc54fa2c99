from benchmarks.batch import FIRST_LINE, Case, result_of
from replay.trace import Recorded


def some_lines(groups: int, lines: int) -> list[Recorded]:
    """Lines of groups with 20 blocks in common each, in an order in which no line follows one of its group."""
    return [
        Recorded(
            FIRST_LINE + line * groups + group,
            *(None, 0.0, 21 * 512, 10),
            (*range(group * 1000, group * 1000 + 20), group * 1000 + 100 + line),
        )
        for line in range(lines)
        for group in range(groups)
    ]


def test_lines_in_order_find_their_prefixes_in_the_cache() -> None:
    lines = some_lines(groups=400, lines=4)
    ordered = result_of(Case("ordered", has_chat=False, has_lines=True), lines, (), seed=1, per_worker=8, blocks=300)
    as_filed = result_of(
        Case("filed", has_chat=False, has_lines=True, is_ordered=False), lines, (), seed=1, per_worker=8, blocks=300
    )

    assert (1600, 1600) == (ordered.in_window, as_filed.in_window)
    assert ordered.line_hit > 0.6
    assert as_filed.line_hit < 0.5
    assert ordered.lines_end_s < as_filed.lines_end_s
