import pytest

from benchmarks.peers.routing.command import parse_arguments, trial_of
from benchmarks.peers.routing.slices import SLICES, turns_of


def test_a_slice_is_what_it_is_where_no_one_says_otherwise() -> None:
    trial = trial_of(SLICES["conversation"], parse_arguments(["--slice", "conversation", "--size", "10"]))

    assert (4, 45_696, 2_500.0) == (trial.workers.count, trial.workers.blocks, trial.workers.prefill_tokens_per_s)
    assert 10 == len(trial.sessions)


def test_caches_and_rates_shrink_as_prompts_do() -> None:
    options = ["--slice", "agentic", "--size", "2", "--turns", "3", "--shrink", "8", "--blocks", "800"]
    trial = trial_of(SLICES["agentic"], parse_arguments([*options, "--prefill-tokens-per-s", "1600"]))

    assert (100, 200.0, 8) == (trial.workers.blocks, trial.workers.prefill_tokens_per_s, trial.shrink)
    assert 6 == sum(1 for _ in turns_of(trial.sessions))


def test_a_peer_that_no_one_knows_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(["--slice", "tau", "--peers", "kv_aware,nginx"])

    assert "no peer 'nginx'" in capsys.readouterr().err


def test_one_slice_is_asked_for() -> None:
    with pytest.raises(SystemExit):
        parse_arguments([])
