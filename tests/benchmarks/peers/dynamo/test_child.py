import argparse
import json

import pytest

from benchmarks.peers.dynamo.child import options_of, tell
from benchmarks.peers.dynamo.index_trial import Measured, Work


def test_a_process_learns_what_caches_to_make_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers, and what it needs beside them as it came."""
    given = ["child", "--seed", "1", "--workers", "64", "--systems", "8", "--blocks", "1000", "--ports", "5,6"]
    monkeypatch.setattr("sys.argv", given)

    assert argparse.Namespace(seed=1, workers=64, systems=8, blocks=1000, ports="5,6") == options_of(
        "A trial.", "ports"
    )


def test_what_was_found_is_reported_as_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Anyone who started the process reads the last line."""
    tell(Measured(stored=Work(blocks=5), wrong=3))
    reported = json.loads(capsys.readouterr().out.splitlines()[-1])

    assert 3 == reported["wrong"]
    assert {"blocks": 5, "messages": 0, "wall_s": 0.0, "cpu_s": 0.0} == reported["stored"]
