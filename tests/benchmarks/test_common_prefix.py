import itertools

import pytest

from benchmarks.common_prefix import PREFIXES, SHARES, contexts, parse_arguments, run


@pytest.mark.parametrize(("share", "shared_blocks"), [(0, 0), (0.125, 4), (0.5, 16), (0.875, 28)])
def test_prompts_of_one_prefix_share_its_blocks_and_no_others(share: float, shared_blocks: int) -> None:
    """With one prefix in use, two requests in a row mostly have it in common."""
    requests = contexts(1, share, 50).trace(1).requests
    shared = [
        sum(a == b for a, b in zip(first.blocks, second.blocks, strict=True))
        for first, second in itertools.pairwise(requests)
    ]

    assert shared_blocks == max(shared)
    assert {4096} == {request.prompt_tokens for request in requests}
    assert {32} == {len(request.blocks) for request in requests}


def test_the_report_has_a_table_and_a_line_for_each_number_of_prefixes() -> None:
    report = run(parse_arguments(["--requests", "30"]))

    assert [f"{prefixes:,} prefixes" for prefixes in PREFIXES] == [table.title for table in report.tables]
    assert list(SHARES) == [share for share, _ in report.figures["gains"]["200"]]
    assert all(gain > 0 for line in report.figures["gains"].values() for _, gain in line)
