"""Dynamo's own frontend and mocked workers behind the gateway: as one worker, and pinned to each of those behind it."""

from collections import Counter
from collections.abc import Iterator

import pytest

from benchmarks.processes import Processes
from tests.dynamo.deployment import MODEL, Deployment, deployed, fronted, until

TEXT = "What was computed once for these words need not be computed again by the worker that has them. " * 8
TIMEOUT_S = 300.0

pytestmark = pytest.mark.timeout(TIMEOUT_S, func_only=True)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Two workers behind a frontend."""
    with Processes() as processes, deployed(processes, tmp_path_factory.mktemp("dynamo")) as there:
        for _ in range(2):
            there.start()
        yield there


def test_the_frontend_is_one_worker_that_chooses_itself(deployment: Deployment) -> None:
    """Whole answers and streams, faults in OpenAI's shape, and its gauges."""
    with fronted(deployment, {}, name="whole") as site:
        answers = [site.ask(f"{i} {TEXT}") for i in range(4)]
        body = {"model": MODEL, "messages": [{"role": "user", "content": TEXT}], "max_tokens": 3}
        stream = site.http.post("/v1/chat/completions", json=body | {"stream": True})
        fault = site.http.post("/v1/chat/completions", json=body | {"temperature": 99})
        completion = site.http.post("/v1/completions", json={"model": MODEL, "prompt": TEXT, "max_tokens": 2})
        until(lambda: bool(site.metric("warmgate_worker_engine_waiting")), "the gauges of the frontend")

    assert {"dynamo"} == {answer.worker for answer in answers}
    assert {answer.instance for answer in answers} <= {mocker.id for mocker in deployment.mockers}
    assert stream.text.rstrip().endswith("data: [DONE]")
    assert (400, True) == (fault.status_code, "Temperature" in fault.json()["error"]["message"])
    assert 2 == completion.json()["usage"]["completion_tokens"]


def test_a_request_reaches_the_worker_that_it_is_pinned_to(deployment: Deployment) -> None:
    """Each in turn; who answered says Dynamo itself. One that is not there costs no caller anything."""
    listed = [mocker.in_settings() for mocker in deployment.mockers]
    with fronted(deployment, {"dynamo": {"instances": listed}}, name="pinned") as site:
        answers = [site.ask(f"{i} {TEXT}") for i in range(6)]
    with fronted(deployment, {"dynamo": {"instances": [*listed, {"id": 77}]}}, name="one-gone") as site:
        others = [site.ask(f"{i} {TEXT}") for i in range(6)]

    assert [answer.worker for answer in answers] == [f"dynamo#{answer.instance}" for answer in answers]
    assert Counter({mocker.id: 3 for mocker in deployment.mockers}) == Counter(answer.instance for answer in answers)
    assert {mocker.id for mocker in deployment.mockers} == {answer.instance for answer in others}


def test_what_their_engines_tell_is_predicted_to_the_token(deployment: Deployment) -> None:
    """The second request with a prefix goes where the first went, with the hit that Dynamo then reports."""
    listed = [mocker.in_settings() for mocker in deployment.mockers]
    with fronted(deployment, {"dynamo": {"instances": listed}}, strategy="kv_aware", name="kv-aware") as site:
        site.wait_until_reported(len(listed))
        firsts = [site.ask(f"Conversation {i}: {TEXT}") for i in range(8)]
        site.wait_until_quiet()
        seconds = [site.ask(f"Conversation {i}: {TEXT}") for i in range(8)]
        blocks = site.metric("warmgate_kv_blocks_total")

    assert [first.instance for first in firsts] == [second.instance for second in seconds]
    assert all(second.predicted == second.cached > 100 for second in seconds), seconds
    assert sum(count for labels, count in blocks.items() if "stored" in labels) > 50


def test_workers_are_those_that_the_frontend_lists(deployment: Deployment) -> None:
    """One comes, one is killed; no one who asks meanwhile gets an error."""
    with fronted(deployment, {"dynamo": {}}, name="listed") as site:
        names = {f"dynamo#{mocker.id}" for mocker in deployment.mockers}
        until(lambda: site.up() == names, "the workers of the start")
        third = deployment.start()
        until(lambda: site.up() == names | {f"dynamo#{third.id}"}, "the third worker")
        answered = {site.ask(f"{i} {TEXT}").instance for i in range(6)}
        third.child.process.kill()
        meanwhile: list[str] = []

        def has_left() -> bool:
            meanwhile.append(site.ask(f"{len(meanwhile)} {TEXT}").instance)
            return site.up() == names

        until(has_left, "the third worker's end")

    deployment.mockers.remove(third)
    assert third.id in answered
    assert third.id not in meanwhile


def test_whose_streams_are_whose_is_found_out_where_they_share_a_host(deployment: Deployment) -> None:
    """No one has said which instance publishes where."""
    streams = [mocker.in_settings()["kv_events"] for mocker in reversed(deployment.mockers)]
    with fronted(deployment, {"dynamo": {"streams": streams}}, strategy="kv_aware", name="streams") as site:
        site.wait_until_reported(len(streams))
        firsts = [site.ask(f"Who tells {i}: {TEXT}") for i in range(4)]
        site.wait_until_quiet()
        seconds = [site.ask(f"Who tells {i}: {TEXT}") for i in range(4)]

    assert [first.instance for first in firsts] == [second.instance for second in seconds]
    assert all(second.predicted == second.cached > 100 for second in seconds), seconds


def test_ranks_of_a_worker_are_workers_too(deployment: Deployment) -> None:
    """Each has a cache, and a port for what it reports that."""
    wide = deployment.start(ranks=2)
    entry = {"ranks": 2, "dynamo": {"instances": [wide.in_settings()]}}
    with fronted(deployment, entry, name="ranks") as site:
        answers = [site.ask(f"{i} {TEXT}") for i in range(4)]
    with fronted(deployment, entry, strategy="kv_aware", name="ranks-kv-aware") as site:
        site.wait_until_reported(2)
        seconds = [site.ask(f"{i} {TEXT}") for i in range(4)]

    assert [answer.worker for answer in answers] == [f"dynamo#{wide.id}.{answer.rank}" for answer in answers]
    assert {0, 1} == {answer.rank for answer in answers}
    assert [answer.worker for answer in answers] == [second.worker for second in seconds]
    assert all(second.predicted == second.cached > 100 for second in seconds), seconds
