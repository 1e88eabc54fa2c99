from pathlib import Path

import pytest

from benchmarks.peers.command import SCENARIOS, parse_arguments, run
from benchmarks.peers.field import Setting
from benchmarks.processes import ChildFailedError
from benchmarks.report import Bar, Circumstances, Report


def test_all_scenarios_are_run_unless_some_are_named() -> None:
    assert tuple(SCENARIOS) == parse_arguments([]).scenarios
    assert ("sizes", "rates") == parse_arguments(["--scenarios", "sizes, rates"]).scenarios


def test_peers_are_named_by_parts_of_their_names() -> None:
    assert ["nginx", "smg cache_aware"] == [each.name for each in parse_arguments(["--peers", "smg,nginx"]).peers]
    assert parse_arguments([]).peers is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scenarios", "sizes,speed"], "no such scenario: speed"),
        (["--peers", "haproxy"], "is called haproxy"),
    ],
)
def test_a_name_that_is_not_one_is_reported(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(arguments)

    assert message in capsys.readouterr().err


def test_a_scenario_that_could_not_run_ends_with_status_2(tmp_path: Path) -> None:
    def fails(_: Setting) -> Report:
        raise ChildFailedError("one core only")

    def misses(_: Setting) -> Report:
        report = Report("peers_sizes", "Sizes", Circumstances.observe(seed=1, packages=()))
        report.bars.append(Bar("rate", 1.0, ">=", 2.0))
        return report

    assert 2 == run("sizes", fails, Setting(results=tmp_path))
    assert 1 == run("sizes", misses, Setting(results=tmp_path))
    assert "**missed**" in (tmp_path / "peers_sizes.md").read_text()
