import pytest

from benchmarks.peers.routing.workers import Work, WorkerOptions, Workers, since, work_of
from benchmarks.processes import Processes
from gateway.cli.main import main

EXPOSITION = """# HELP vllm:prompt_tokens_total Prompt tokens whose prefill has ended.
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 1000.0
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 640.0
vllm:generation_tokens_total{engine="0",model_name="tiny"} 1.2e+02
vllm:request_success_total{engine="0",finished_reason="stop",model_name="tiny"} 3.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"} 4.0
vllm:request_success_created{engine="0",finished_reason="length",model_name="tiny"} 1.7e+09
"""


def test_what_a_worker_did_stands_in_its_metrics() -> None:
    work = work_of(EXPOSITION)

    assert Work(requests=7, prompt_tokens=1000, cached_tokens=640, output_tokens=120) == work
    assert 360 == work.computed_tokens


def test_what_was_done_before_does_not_count() -> None:
    before, after = Work(1, 100, 10, 5), Work(4, 700, 310, 50)

    assert [Work(3, 600, 300, 45)] == since([before], [after])


def test_another_engine_is_no_worker() -> None:
    with pytest.raises(KeyError):
        work_of("sglang:num_requests 1.0\n")


@pytest.mark.e2e
def test_workers_are_what_is_asked_for_and_their_caches_are_cold() -> None:
    options = WorkerOptions(1, 64, 2_500.0, 12.0, "fifo", 50.0)
    with Processes() as processes:
        workers = Workers.start(processes, options)

        assert [Work(0, 0, 0, 0)] == workers.work()
        assert workers.cpu_s() > 0
    command = options.command()
    assert "2500" == command[command.index("--prefill-tokens-per-s") + 1]
    assert "50" == command[command.index("--speed") + 1]


def test_the_command_is_one_that_the_program_knows(capsys: pytest.CaptureFixture[str]) -> None:
    """Its last word decides."""
    command = WorkerOptions(1, 64, 2_500.0, 12.0, "chunked", 1.0).command()
    with pytest.raises(SystemExit) as ended:
        main([*command[command.index("simulate") :], "--help"])

    assert 0 == ended.value.code
    assert "--prefill-tokens-per-s" in capsys.readouterr().out
