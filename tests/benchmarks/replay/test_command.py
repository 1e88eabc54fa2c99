import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.replay.command import main, parse_arguments, setting_of
from benchmarks.replay.recorded import SETTINGS
from routing.strategies import NAMES
from tests.replay.examples import asked, three, written


def test_options_change_the_setting_of_a_trace() -> None:
    """A name without its endings will do."""
    plain = parse_arguments(["--trace", "mooncake_conversation_6000"])
    options = parse_arguments(["--trace", "mooncake_conversation_6000.jsonl", "--speed", "3", "--blocks", "2900"])

    assert SETTINGS[0] == setting_of(plain)
    assert dataclasses.replace(SETTINGS[0], speed=3.0, blocks=2900) == setting_of(options)


def test_events_can_be_made_worse() -> None:
    """Late, lost, and a wrong idea of the engines' rate."""
    harder = ["--event-lag", "1.0", "--event-loss", "0.05", "--rate-error", "2"]
    setting = setting_of(parse_arguments(["--trace", "ragpulse_3553_blk64", *harder]))

    assert (1.0, 0.05, 2.0) == (setting.event_lag_s, setting.event_loss, setting.rate_error)


def test_workers_can_be_unequal() -> None:
    setting = setting_of(parse_arguments(["--trace", "ragpulse_3553_blk64", "--speeds", "1,.25", "--speed", "2"]))

    assert ((1.0, 0.25), 2.0) == (setting.worker_speeds, setting.speed)


def test_a_host_tier_is_given_as_a_multiple_of_the_cache() -> None:
    """The options also give the size of the cache."""
    options = ["--blocks", "600", "--host-tier", "1.5", "--load-tokens-per-s", "5000", "--load-price", "0.25"]
    setting = setting_of(parse_arguments(["--trace", "ragpulse_3553_blk64", *options]))

    assert (900, 5000.0, 0.25) == (setting.host_blocks, setting.load_tokens_per_s, setting.load_price)


def test_our_strategies_are_compared_unless_others_are_named() -> None:
    """Policies of others only where they are asked for, under either name of the option."""
    assert list(NAMES) == parse_arguments([]).strategies
    assert ["kv_aware", "llm_d"] == parse_arguments(["--strategy", "kv_aware,llm_d"]).strategies
    assert ["kv_aware", "llm_d"] == parse_arguments(["--strategies", "kv_aware,llm_d"]).strategies


def test_both_files_are_written(tmp_path: Path) -> None:
    """A row for each strategy, and the speeds it was searched for."""
    arguments = ["--trace", str(three(tmp_path)), "--workers", "2", "--seeds", "2", "--capacity-search"]
    main([*arguments, "--strategies", "prefix_aware,round_robin", "--results", str(tmp_path)])
    found = json.loads((tmp_path / "replay.json").read_text())
    compared, searched = found["tables"]

    assert ["prefix_aware", "round_robin"] == [row[0] for row in compared["rows"]]
    assert ["prefix_aware", "round_robin"] == [row[0] for row in searched["rows"]]
    assert 2 == len(found["figures"]["trace.jsonl"]["prefix_aware"])
    assert "| prefix_aware |" in (tmp_path / "replay.md").read_text()


@pytest.mark.parametrize("strategy", ["kv_aware", "dynamo_1", "bound_first_come"])
def test_one_replay_is_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str], strategy: str) -> None:
    """Nothing else is printed, and no report is written."""
    arguments = ["--trace", str(three(tmp_path)), "--workers", "2", "--strategy", strategy, "--seed", "7", "--json"]

    assert 0 == main([*arguments, "--results", str(tmp_path / "results")])

    printed = capsys.readouterr()
    found = json.loads(printed.out)

    assert "" == printed.err
    assert (strategy, 7, 3) == (found["strategy"], found["seed"], found["requests"] + 1)
    assert {"hit", "ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "imbalance"} <= found.keys()
    assert 0.01 < found["ttft_p50_s"] <= found["ttft_p99_s"]
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("options", [["--strategy", "kv_aware"], ["--trace", "ragpulse_3553_blk64"]])
def test_several_replays_are_not_one_object(capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    """All traces, or all strategies."""
    assert 2 == main(["--json", *options])

    printed = capsys.readouterr()

    assert "" == printed.out
    assert "replay: --json takes one --trace and one --strategy\n" == printed.err


@pytest.mark.parametrize("form", [[], ["--json", "--strategy", "kv_aware"]])
@pytest.mark.parametrize(
    ("lines", "options", "said"),
    [
        ([], [], "trace.jsonl is empty"),
        ([{"timestamp": 0, "input_length": 5}], [], "trace.jsonl: line 1 has no field 'output_length'"),
        ([asked(0, 1100, [1, 2, 3])], ["--blocks", "2"], "request 0 needs 3 blocks, but the cache has only 2"),
        ([asked(0, 1100, [1, 2, 3])], ["--speed", "0"], "speed must be above 0, not 0.0"),
        ([asked(0, 1100, [1, 2, 3])], ["--event-loss", "1"], "event_loss must be at least 0 and below 1, not 1.0"),
        ([asked(0, 1100, [1, 2, 3])], ["--skip", "1"], "nothing is left of the trace after the first 1"),
    ],
)
def test_what_cannot_run_says_why(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    form: list[str],
    lines: list[dict[str, Any]],
    options: list[str],
    said: str,
) -> None:
    """Status 2, and the fault by name."""
    assert 2 == main(["--trace", str(written(tmp_path, *lines)), "--results", str(tmp_path), *options, *form])
    assert capsys.readouterr().err.endswith(f"replay: {said}\n")  # behind the bar, if work had begun


@pytest.mark.parametrize("option", ["--seeds", "--processes"])
def test_none_is_too_few(capsys: pytest.CaptureFixture[str], option: str) -> None:
    """At least one seed, and one process."""
    assert 2 == main([option, "0"])
    assert "replay: --seeds and --processes must be at least 1\n" == capsys.readouterr().err


def test_an_unknown_strategy_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With the names there are."""
    with pytest.raises(SystemExit):
        parse_arguments(["--strategies", "prefix_aware,best"])

    assert "no strategy 'best'; there are " in capsys.readouterr().err
