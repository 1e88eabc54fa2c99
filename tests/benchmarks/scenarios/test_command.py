from pathlib import Path

import pytest

from benchmarks.scenarios.command import NAMES, main, parse_arguments


def test_each_scenario_can_be_run_alone() -> None:
    assert ("seven_replicas", "twenty_turns", "r1_100k", "locust") == NAMES
    assert "r1_100k" == parse_arguments(["--only", "r1_100k"]).only


@pytest.mark.parametrize("option", ["--seeds", "--processes", "--gpu-usd-per-hour"])
def test_numbers_that_make_no_run_are_refused(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With status 2 and a sentence; no report is written."""
    assert 2 == main(["--only", "twenty_turns", "--results", str(tmp_path), option, "0"])
    assert "must be above 0" in capsys.readouterr().err
    assert [] == list(tmp_path.iterdir())
