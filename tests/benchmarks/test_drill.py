"""What counts as noticed, and what is promised; the drill itself takes minutes."""

from collections.abc import Sequence

import pytest

from benchmarks.chaos_clients import RIGHT, Record, Verdict
from benchmarks.drill import STEPS, Seen, is_cut, parse_arguments, sorted_by_step, start_clients, tell
from benchmarks.processes import Processes
from benchmarks.report import Circumstances, Report

CALM, NO_NOTICE = STEPS[0], STEPS[-1]


def record(kind: str = "right", *, at: float = 0.0, took_s: float = 1.0, ttft_s: float | None = 0.1) -> Record:
    return Record("chaos-1", at, ttft_s, took_s, RIGHT if kind == "right" else Verdict(kind, "why"), 0.3)


def reported(*last: Record, first: Sequence[Record] = ()) -> list[bool]:
    report = Report("drill", "Drill", Circumstances.observe(seed=1, packages=()))
    tell(report, [(Seen.of(CALM, first, 1.0), first), (Seen.of(NO_NOTICE, last, 1.0), last)])
    return [bar.is_met for bar in report.bars]


def test_a_request_belongs_to_the_step_in_which_it_ended() -> None:
    """What ends after the last step belongs to that."""
    early, over, late = record(at=0.0), record(at=9.5), record(at=50.0)

    assert [[early], [over, late]] == sorted_by_step([early, over, late], [10.0, 20.0])


def test_nothing_may_fail_but_what_a_dead_gateway_had_begun() -> None:
    """In the step that kills one, and nowhere else."""
    assert [True, True, True] == reported(record(), record("cut"))
    assert [False, True, True] == reported(record("cut", ttft_s=None))
    assert [False, True, True] == reported(record("status 503"))
    assert [False, True, True] == reported(first=[record("cut")])
    assert [True, False, True] == reported(record("wrong text"))


def test_a_stream_is_cut_that_had_begun() -> None:
    assert is_cut(record("cut"))
    assert not is_cut(record("cut", ttft_s=None))
    assert not is_cut(record())


def test_times_are_those_of_right_answers() -> None:
    seen = Seen.of(CALM, [record(ttft_s=0.2), record("status 503", ttft_s=9.0)], 1.0)

    assert (2, 1, 0.2, 0.3) == (seen.answers, seen.failed, seen.ttft_p50_s, seen.longest_pause_s)


@pytest.mark.e2e
def test_no_two_clients_ask_the_same() -> None:
    """Those of both processes have numbers of their own, and the key."""
    with Processes() as processes:
        options = parse_arguments(["--clients", "4", "--seconds", "0"])
        children = start_clients(processes, "http://127.0.0.1:1", options)
        words = [" ".join(map(str, child.process.args)) for child in children]  # type: ignore[arg-type]  # a list

    assert ["--clients 2 --first 0 ", "--clients 2 --first 4 "] == [
        each[each.index("--clients") :][:22] for each in words
    ]
    assert all("--key" in each for each in words)
