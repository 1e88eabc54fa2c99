import sys
from pathlib import Path

import pytest

from benchmarks.peers.dynamo.rounds import Found, Program, Sides, by_turns, run
from benchmarks.peers.environment import Peer
from benchmarks.processes import ChildFailedError, Processes
from benchmarks.report import Spread
from benchmarks.shipped import Shipped

REPORTS = (
    "import json, os, sys; print('hello'); print(json.dumps({'arguments': sys.argv[1:], 'mood': os.environ['MOOD']}))"
)


def program(text: str) -> Program:
    return Program("Somebody", [sys.executable, "-c", text], {"MOOD": "good"})


@pytest.mark.e2e
def test_a_program_gets_its_options_and_reports_in_its_last_line() -> None:
    with Processes() as processes:
        found = run(processes, program(REPORTS), {"seed": 1, "ports": "5,6"})

    assert {"arguments": ["--seed", "1", "--ports", "5,6"], "mood": "good"} == found


@pytest.mark.e2e
def test_what_goes_on_meanwhile_begins_when_the_program_has_been_started(tmp_path: Path) -> None:
    """It may be what the program waits for."""
    sign = tmp_path / "sign"
    waits = f"import os, time\nwhile not os.path.exists({str(sign)!r}): time.sleep(0.01)\nprint('{{}}')"
    with Processes() as processes:
        found = run(processes, program(waits), {}, meanwhile=sign.touch)

    assert {} == found


@pytest.mark.e2e
def test_a_program_that_fails_is_an_error_with_its_last_words() -> None:
    """The benchmark could not run then."""
    with Processes() as processes, pytest.raises(ChildFailedError, match="no such index"):
        run(processes, program("raise SystemExit('no such index')"), {})


def test_our_wheel_goes_before_the_checkout(tmp_path: Path) -> None:
    """Else the sources would be measured under its name; a peer has an interpreter of its own."""
    shipped = Program.ours("warmgate_index", Shipped(tmp_path))
    sources = Program.ours("warmgate_index", None)
    peer = Program.of(Peer("dynamo", (), tmp_path), "dynamo_index")

    assert shipped.environment["PYTHONPATH"] == f"{tmp_path}:{sources.environment['PYTHONPATH']}"
    assert "-P" in shipped.command
    assert [str(tmp_path / "bin" / "python"), "-m", "benchmarks.peers.dynamo.dynamo_index"] == list(peer.command)


def test_who_begins_alternates() -> None:
    """Neither is always the one that finds the machine warm."""
    turns: list[str] = []

    def side(name: str) -> Found:
        turns.append(name)
        return {"name": name, "wrong": 1}

    sides = by_turns(lambda: side("ours"), lambda: side("theirs"), rounds=3)

    assert ["ours", "theirs", "theirs", "ours", "ours", "theirs"] == turns
    assert {"ours"} == {found["name"] for found in sides.ours}
    assert {"theirs"} == {found["name"] for found in sides.theirs}
    assert 6 == sides.wrong


def test_ratios_are_of_the_same_round() -> None:
    """A machine that slows down slows both."""
    sides = Sides([{"us": 10.0}, {"us": 30.0}, {"us": 8.0}], [{"us": 5.0}, {"us": 10.0}, {"us": 4.0}])
    ours, theirs, ratio = sides.spreads(lambda found: found["us"])

    assert Spread(10.0, 8.0, 30.0, 3) == ours
    assert Spread(5.0, 4.0, 10.0, 3) == theirs
    assert Spread(2.0, 2.0, 3.0, 3) == ratio
