from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from engine_model.engine import EngineLoad
from simulator.exposition import Exposition, counter, gauge

LOAD = EngineLoad(
    running=3,
    waiting=2,
    kv_usage=0.25,
    prefix_query_tokens=100,
    prefix_hit_tokens=48,
    prompt_tokens=90,
    generation_tokens=70,
    preemptions=1,
)


class Names:
    ttft = "e:ttft_seconds"
    labels = {"model": "tiny"}  # noqa: RUF012 - never written

    def __init__(self, finished: str | None) -> None:
        self.finished = finished

    def families(self, load: EngineLoad) -> Iterator[Metric]:
        yield gauge("e:running", "Running.", load.running, self.labels)
        yield counter("e:tokens", "Tokens.", load.generation_tokens, self.labels)


def exposed(finished: str | None) -> set[str]:
    exposition = Exposition(Names(finished), lambda: LOAD, started_at=1000.5)
    exposition.first_token(0.07)
    exposition.finished("stop")
    return set(exposition.render().decode().splitlines())


def test_the_engine_gives_the_names() -> None:
    expected = {
        'e:running{model="tiny"} 3.0',
        'e:tokens_total{model="tiny"} 70.0',
        'e:ttft_seconds_count{model="tiny"} 1.0',
        'e:ttft_seconds_sum{model="tiny"} 0.07',
        'e:finished_total{finished_reason="stop",model="tiny"} 1.0',
        'e:finished_total{finished_reason="abort",model="tiny"} 0.0',
        "process_start_time_seconds 1000.5",
    }

    assert expected <= exposed("e:finished")


def test_an_engine_may_not_count_what_has_ended() -> None:
    """Then there is no such metric."""
    assert not any("finished" in line for line in exposed(None))
