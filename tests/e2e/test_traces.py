"""Traces as a receiver gets them: of requests through the real gateway, over real sockets."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.e2e.dividing import divided
from tests.e2e.governed import bearer
from tests.e2e.stack import stack
from tests.e2e.traced import (
    CALLERS_SPAN,
    CALLERS_TRACE,
    CONTEXT,
    KEY,
    PROMPT,
    UNREACHABLE,
    a_stream,
    a_team,
    body,
    breaking_off,
    failing_over,
)
from tests.fakes.otlp_receiver import OtlpReceiver, ReceivedSpan, receiving

SERVER, CLIENT = 2, 3
JSON = {"content-type": "application/json"}


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with receiving() as there:
        yield there


@pytest.fixture
def teams_receiver() -> Iterator[OtlpReceiver]:
    with receiving() as there:
        yield there


async def trace_of(receiver: OtlpReceiver) -> tuple[ReceivedSpan, list[ReceivedSpan]]:
    """The one trace that came: the span of the request, and those within it in their order."""
    await receiver.until(lambda it: bool(it.spans))
    root, *others = receiver.spans
    assert {root.trace_id} == {span.trace_id for span in receiver.spans}
    for span in others:
        assert root.began_ns <= span.began_ns <= span.ended_ns <= root.ended_ns + 50_000_000, span
    return root, others


def within(parent: ReceivedSpan, spans: list[ReceivedSpan]) -> list[str]:
    return [span.name for span in spans if span.parent_id == parent.id]


def named(name: str, spans: list[ReceivedSpan]) -> list[ReceivedSpan]:
    return [span for span in spans if span.name == name]


def parent_of(entry: Mapping[str, Any]) -> str | None:
    """The ``traceparent`` that a worker was sent."""
    return dict(map(tuple, entry["headers"])).get("traceparent")


async def test_a_trace_shows_every_phase_of_a_fallback(receiver: OtlpReceiver) -> None:
    tracing = {"endpoint": receiver.url, "resource": {"deployment.environment.name": "test"}}
    async with failing_over(tracing) as (here, elsewhere):
        answer = await here.http.post("/v1/chat/completions", json=body(), headers=bearer(KEY) | CONTEXT)
        assert 200 == answer.status_code, answer.text
        (asked,) = [each for each in await here.served(elsewhere) if each["path"].endswith("/chat/completions")]
        (line,) = await here.lines(1)
    root, spans = await trace_of(receiver)

    assert (CALLERS_TRACE, CALLERS_SPAN, SERVER, "chat gpt-4o") == (
        root.trace_id,
        root.parent_id,
        root.kind,
        root.name,
    )
    assert (None, "shop=1,cart=2", CALLERS_TRACE) == (root.error, root.state, line["trace_id"])
    assert ("warmgate", "test") == (root.resource["service.name"], root.resource["deployment.environment.name"])
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "aws.bedrock",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.request.max_tokens": 8,
        "gen_ai.request.stream": False,
        "gen_ai.response.model": "qwen.traced-v1:0",
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 5,
        "http.route": "/v1/chat/completions",
        "http.response.status_code": 200,
        "warmgate.team": "blue",
        "warmgate.key": "ci",
        "warmgate.project": "search",
        "warmgate.backend": "bedrock:qwen.traced-v1:0",
        "warmgate.backend.kind": "bedrock",
        "warmgate.strategy": "prefix_aware",
        "warmgate.attempts": 3,
        "warmgate.fell_back": True,
        "warmgate.cost_usd": 0.021,
        "warmgate.request_id": answer.headers["x-request-id"],
    }
    assert expected == {name: root.attributes.get(name) for name in expected}

    phases = ["authenticate", "receive", "parse", "tokenize", "reserve", "queue", "attempt"]
    assert [*phases, "wait", "fallback", "fallback", "settle"] == within(root, spans)
    (queue,) = named("queue", spans)
    assert ("prefix_aware", "cold", 1, "w1", 0, "predicted") == tuple(
        queue.attributes[f"warmgate.{name}"]
        for name in ("strategy", "reason", "candidates", "worker", "hit.blocks", "hit.source")
    )
    assert 0 < queue.attributes["warmgate.prompt.tokens"] < 100
    assert 0 < queue.attributes["warmgate.expected.ttft_s"] < 1
    assert ["w1"] == queue.attributes["warmgate.order.workers"]

    (attempt,) = named("attempt", spans)
    assert (CLIENT, "ConnectFailed", "failed", "127.0.0.1") == (
        attempt.kind,
        attempt.error,
        attempt.attributes["warmgate.outcome"],
        attempt.attributes["server.address"],
    )
    second_site, bedrock = named("fallback", spans)
    assert ("second-site", "openai", "NoWorker", "UpstreamRefused", 503, "failed") == (
        second_site.attributes["warmgate.backend"],
        second_site.attributes["warmgate.backend.kind"],
        second_site.attributes["warmgate.why"],
        second_site.error,
        second_site.attributes["http.response.status_code"],
        second_site.attributes["warmgate.outcome"],
    )
    assert f"00-{CALLERS_TRACE}-{second_site.id}-01" == parent_of(asked)
    assert (None, 200, "answered") == (
        bedrock.error,
        bedrock.attributes["http.response.status_code"],
        bedrock.attributes["warmgate.outcome"],
    )
    assert ["relay"] == within(bedrock, spans)
    for secret in (PROMPT, KEY, answer.json()["choices"][0]["message"]["content"]):
        assert not any(secret.encode() in message for message in receiver.messages)


async def test_a_team_is_notified_of_its_own_traces_as_langfuse_has_them(
    receiver: OtlpReceiver, teams_receiver: OtlpReceiver
) -> None:
    """With prompts and answers where it wants them; the operator's traces have none all the same."""
    project = {
        "endpoint": f"{teams_receiver.url}/api/public/otel",
        "auth": "basic",
        "secret": "pk-lf-1:sk-lf-2",
        "headers": {"x-langfuse-ingestion-version": "4"},
        "content": True,
    }
    labels = {"metadata": {"session_id": "s-9", "tags": ["beta"], "screen": "cart"}, "user": "ada"}
    async with failing_over({"endpoint": receiver.url}, tracing=project) as (here, _):
        answer = await here.http.post("/v1/chat/completions", json=body(**labels), headers=bearer(KEY))
        assert 200 == answer.status_code, answer.text
        theirs, _ = await trace_of(teams_receiver)
        operators, _ = await trace_of(receiver)
        # The receiver has the trace before the gateway has its answer.
        async with asyncio.timeout(60):
            while sum((reported := await here.metric("warmgate_traces_total")).values()) < 2:
                await asyncio.sleep(0.02)

    assert ["/api/public/otel/v1/traces"] == teams_receiver.paths
    (headers,) = teams_receiver.headers
    assert ("Basic cGstbGYtMTpzay1sZi0y", "4") == (headers["authorization"], headers["x-langfuse-ingestion-version"])
    expected = {
        "langfuse.observation.type": "generation",
        "langfuse.session.id": "s-9",
        "langfuse.user.id": "ada",
        "langfuse.trace.tags": ["beta"],
        "langfuse.trace.metadata.screen": "cart",
        "langfuse.trace.metadata.team": "blue",
        "langfuse.observation.usage_details": '{"input":11,"output":5}',
        "langfuse.observation.cost_details": '{"total":0.021}',
    }
    assert expected == {name: theirs.attributes.get(name) for name in expected}
    said = answer.json()["choices"][0]["message"]["content"]
    assert PROMPT in theirs.attributes["gen_ai.input.messages"]
    assert said in theirs.attributes["gen_ai.output.messages"]

    assert (operators.trace_id, operators.id) == (theirs.trace_id, theirs.id)
    assert not any(PROMPT.encode() in message for message in receiver.messages)
    assert not any(name.startswith("langfuse.") for name in operators.attributes)
    assert {
        '{destination="operator",outcome="sent"}': 1.0,
        '{destination="team:blue",outcome="sent"}': 1.0,
    } == {labels: count for labels, count in reported.items() if count}


async def test_a_trace_shows_both_parts_of_a_continued_stream(receiver: OtlpReceiver) -> None:
    """Each worker was sent its own span as its parent, and the caller's trace goes through all of it."""
    async with breaking_off({"endpoint": receiver.url}) as (here, workers):
        answer = await here.http.post("/v1/chat/completions", json=a_stream(), headers=CONTEXT)
        served = [(await here.served(worker))[-1] for worker in workers]
        (line,) = await here.lines(1)
    root, spans = await trace_of(receiver)

    assert (1, "data: [DONE]") == (line["continued"], answer.text.strip().splitlines()[-1])
    phases = ["authenticate", "receive", "parse", "tokenize", "reserve", "queue", "attempt"]
    assert [*phases, "queue", "attempt", "settle"] == within(root, spans)
    broken, continued = named("attempt", spans)
    assert ("first", "ReplyBroken", "failed", None) == (
        broken.attributes["warmgate.worker"],
        broken.error,
        broken.attributes["warmgate.outcome"],
        broken.attributes.get("warmgate.continued"),
    )
    assert ("second", None, "answered", True) == (
        continued.attributes["warmgate.worker"],
        continued.error,
        continued.attributes["warmgate.outcome"],
        continued.attributes.get("warmgate.continued"),
    )
    assert (["relay"], ["relay"]) == (within(broken, spans), within(continued, spans))
    assert 0 < broken.attributes["warmgate.first_byte_s"] < 30
    queued, queued_again = named("queue", spans)
    assert (["first", "second"], "prefix_aware") == (
        queued.attributes["warmgate.order.workers"],
        queued.attributes["warmgate.strategy"],
    )
    assert queued_again.began_ns >= broken.ended_ns
    assert [f"00-{CALLERS_TRACE}-{each.id}-01" for each in (broken, continued)] == [parent_of(each) for each in served]
    expected = {"warmgate.continued": 1, "warmgate.attempts": 2, "gen_ai.usage.output_tokens": 8}
    assert expected == {name: root.attributes[name] for name in expected}
    assert 0 < root.attributes["gen_ai.response.time_to_first_chunk"] < 30
    assert not any(PROMPT.encode() in message for message in receiver.messages)


async def test_what_is_not_sampled_reports_its_worker_so(receiver: OtlpReceiver) -> None:
    """Whether the gateway decides that or the caller; and a caller that samples is followed."""
    async with stack(1, tracing={"endpoint": receiver.url, "ratio": 0}) as here:
        for headers in ({}, {"traceparent": f"00-{CALLERS_TRACE}-{CALLERS_SPAN}-00"}, CONTEXT):
            assert 200 == (await here.http.post("/v1/chat/completions", json=body(), headers=headers)).status_code
        lines = await here.lines(3)
        by_us, by_caller, traced = map(parent_of, (await here.served(here.workers[0]))[-3:])

    assert [None, None, CALLERS_TRACE] == [line["trace_id"] for line in lines]
    assert by_us is not None
    assert ("00", "00") == (by_us[:2], by_us[-2:])
    assert f"00-{CALLERS_TRACE}-{CALLERS_SPAN}-00" == by_caller
    _, spans = await trace_of(receiver)
    (attempt,) = named("attempt", spans)
    assert f"00-{CALLERS_TRACE}-{attempt.id}-01" == traced


async def test_a_receiver_that_is_away_costs_no_one_an_answer() -> None:
    async with stack(1, tracing={"endpoint": UNREACHABLE}) as here:
        for _ in range(3):
            assert 200 == (await here.http.post("/v1/chat/completions", json=body())).status_code
        assert [3] == [len(await here.lines(3))]


async def test_a_prompt_that_another_worker_computes_is_shown_within_the_attempt(receiver: OtlpReceiver) -> None:
    """With the numbers by which that one was chosen."""
    async with divided("prefill", "decode", groups={"tracing": {"endpoint": receiver.url}}) as here:
        assert 200 == (await here.ask()).status_code
        computing, answering = here.workers
    root, spans = await trace_of(receiver)
    (attempt,) = named("attempt", spans)
    (prefill,) = named("prefill", spans)

    assert {"prefill", "relay"} == set(within(attempt, spans))
    assert (answering, computing, "answered", CLIENT) == (
        attempt.attributes["warmgate.worker"],
        prefill.attributes["warmgate.worker"],
        prefill.attributes["warmgate.outcome"],
        prefill.kind,
    )
    assert 0 < prefill.attributes["warmgate.expected.prefill_s"] < 10
    assert ("remote", computing) == (root.attributes["warmgate.prefill"], root.attributes["warmgate.prefill.worker"])


async def test_a_request_that_is_refused_failed_in_one_phase(receiver: OtlpReceiver) -> None:
    async with stack(1, teams=[a_team()], tracing={"endpoint": receiver.url}) as here:
        answers = [
            await here.http.post("/v1/chat/completions", json=body(), headers=bearer("wg-nobodys")),
            await here.http.post("/v1/chat/completions", content=b"{", headers=bearer(KEY) | JSON),
            await here.http.post("/v1/chat/completions", json=body(model="other"), headers=bearer(KEY)),
        ]
        assert [401, 400, 404] == [answer.status_code for answer in answers]
    roots = [span for span in receiver.spans if span.kind == SERVER]
    failed = [(span.name, span.error) for span in receiver.spans if span.kind != SERVER and span.error is not None]

    assert [("authenticate", "InvalidKey"), ("parse", "MalformedBody"), ("parse", "UnknownModel")] == failed
    assert [("chat", None, 401), ("chat", None, 400), ("chat", None, 404)] == [
        (span.name, span.error, span.attributes["http.response.status_code"]) for span in roots
    ]
    assert [None, "blue", "blue"] == [span.attributes.get("warmgate.team") for span in roots]
    assert not any(b"wg-nobodys" in message for message in receiver.messages)
