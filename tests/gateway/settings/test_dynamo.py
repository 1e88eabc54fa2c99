"""A worker that is a Dynamo frontend, and data-parallel ranks."""

from pathlib import Path
from typing import Any

import pytest

from gateway.settings import DynamoSettings, InstanceSettings, WorkerEventsSettings
from tests.gateway.settings.examples import parsed, sentences, with_model, with_worker

PAGE = Path(__file__).parents[3] / "docs/how-to/dynamo.md"
PLACE = "models[0].workers[0]"
EVENTS = {"endpoint": "tcp://10.0.0.5:5557"}


def test_instances_are_numbers_of_64_bits_however_they_are_written() -> None:
    worker = parsed(with_worker(dynamo={"instances": [{"id": 2**64 - 1}, {"id": "7", "kv_events": EVENTS}]})).models[0]

    assert DynamoSettings(
        instances=(
            InstanceSettings(id="18446744073709551615"),
            InstanceSettings(id="7", kv_events=WorkerEventsSettings(endpoint="tcp://10.0.0.5:5557")),
        )
    ) == (worker.workers[0].dynamo)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"dynamo": {"instances": [{"id": 2**64}]}},
            "dynamo.instances[0].id is 18446744073709551616; the value must be an integer from 0 to 2**64 - 1.",
        ),
        (
            {"dynamo": {"instances": [{"id": "1e18"}]}},
            "dynamo.instances[0].id is '1e18'; the value must be an integer from 0 to 2**64 - 1.",
        ),
        (
            {"dynamo": {"instances": [{"id": 7}, {"id": "7"}]}},
            "dynamo.instances[1].id is '7', which is already used by {place}.dynamo.instances[0].id.",
        ),
        (
            {"dynamo": {"instances": [{"id": 7}], "component": "backend"}},
            "dynamo.component cannot be combined with dynamo.instances, which lists the workers itself.",
        ),
        (
            {"dynamo": {"instances": [{"id": 7}], "streams": [EVENTS]}},
            "dynamo.streams cannot be combined with {place}.dynamo.instances.",
        ),
        (
            {"dynamo": {"kv_events_port": 5557, "streams": [EVENTS]}},
            "dynamo.streams cannot be combined with {place}.dynamo.kv_events_port.",
        ),
        (
            {"dynamo": {"streams": [{"topic": "kv"}]}},
            "dynamo.streams[0].endpoint is required, because the gateway connects to it.",
        ),
        ({"dynamo": {"kv_replay_port": 5558}}, "dynamo.kv_replay_port requires dynamo.kv_events_port."),
        (
            {"dynamo": {}, "kv_events": EVENTS},
            "kv_events cannot be combined with dynamo, whose instances have their own event streams.",
        ),
        (
            {"dynamo": {}, "ranks": 0},
            "ranks must be above 0 if dynamo is set, because a frontend does not report its ranks.",
        ),
        ({"ranks": 4, "kv_events": {**EVENTS, "ranks": 2}}, "ranks differs from {place}.kv_events.ranks."),
        (
            {"dynamo": {"instances": [{"id": 7, "kv_events": {"topic": "kv"}}]}},
            "dynamo.instances[0].kv_events.endpoint is required, because kv_events.bind is not set.",
        ),
    ],
)
def test_what_contradicts_itself_is_refused_by_name(fields: dict[str, Any], message: str) -> None:
    assert [f"{PLACE}.{message.format(place=PLACE)}"] == sentences(with_worker(**fields))


def test_ranks_may_be_said_in_either_place() -> None:
    assert [4, 1, 4, 0] == [
        parsed(with_worker(**fields)).models[0].workers[0].ranks
        for fields in (
            {"ranks": 4},
            {"kv_events": {**EVENTS, "ranks": 4}},
            {"ranks": 4, "kv_events": {**EVENTS, "ranks": 4}},
            {"ranks": 0, "kv_events": {**EVENTS, "ranks": 4}},
        )
    ]


def test_the_example_of_the_readme_is_one() -> None:
    """Four ranks, as many as the engine says, and a frontend whose workers are followed."""
    section = PAGE.read_text(encoding="utf-8")
    text = section.partition("```yaml\n")[2].partition("```")[0]
    workers = parsed(text).models[0].workers

    assert [4, 0, 1] == [worker.ranks for worker in workers]
    assert DynamoSettings(component="backend", kv_events_port=5557, kv_replay_port=5558) == workers[2].dynamo


def test_the_names_of_ranks_are_no_one_elses() -> None:
    """What stands behind an address is called by its id, a # and more; elsewhere a # is as good as any letter."""
    other = {"url": "http://b:1", "id": "gpu#1"}

    assert ["models[0].workers[1].id is reserved for one of the workers behind models[0].workers[0].url."] == (
        sentences(with_model(workers=[{"url": "http://a:1", "id": "gpu", "ranks": 2}, other]))
    )
    assert 2 == len(parsed(with_model(workers=[{"url": "http://a:1", "id": "gpu"}, other])).models[0].workers)
