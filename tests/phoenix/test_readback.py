"""Traces as Phoenix has them, read back from it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.processes import Processes, free_port
from tests.e2e.governed import bearer
from tests.e2e.traced import CALLERS_TRACE, CONTEXT, KEY, PROMPT, a_stream, body, breaking_off, failing_over
from tests.phoenix.environment import PHOENIX


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address."""
    if not PHOENIX.exists():
        pytest.exit("Phoenix is not installed here: python -m tests.phoenix.environment", returncode=2)
    folder: Path = tmp_path_factory.mktemp("phoenix")
    port, grpc_port = free_port(), free_port()
    with pytest.MonkeyPatch.context() as environment, Processes() as processes:
        for name, value in {
            "PHOENIX_WORKING_DIR": str(folder),
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(port),
            "PHOENIX_GRPC_PORT": str(grpc_port),
            "PHOENIX_TELEMETRY_ENABLED": "false",
        }.items():
            environment.setenv(name, value)
        processes.start("phoenix", [str(PHOENIX), "serve"]).wait_for_port(port, timeout_s=120)
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=30) as client:
        yield client


async def read_back(http: httpx.AsyncClient, phoenix: str, project: str) -> list[dict[str, Any]]:
    """The spans of *project*, oldest first, once the last of a request has come."""
    async with asyncio.timeout(60):
        while True:
            answer = await http.get(f"{phoenix}/v1/projects/{project}/spans", params={"limit": 100})
            spans: list[dict[str, Any]] = answer.json()["data"] if answer.status_code == 200 else []
            if any(span["name"] == "settle" for span in spans):
                return sorted(spans, key=lambda span: str(span["start_time"]))
            await asyncio.sleep(0.2)


def tracing(phoenix: str, project: str, **more: Any) -> dict[str, Any]:
    return {"endpoint": phoenix, "resource": {"openinference.project.name": project}, **more}


def names(spans: list[dict[str, Any]], parent: dict[str, Any]) -> list[str]:
    return [span["name"] for span in spans if span["parent_id"] == parent["context"]["span_id"]]


async def test_a_fallback_is_read_back(phoenix: str, http: httpx.AsyncClient) -> None:
    """Every phase, with the numbers of the decision; the prompt is nowhere."""
    async with failing_over(tracing(phoenix, "fallback")) as (here, _):
        answer = await here.http.post("/v1/chat/completions", json=body(), headers=bearer(KEY) | CONTEXT)
        assert 200 == answer.status_code, answer.text
    spans = await read_back(http, phoenix, "fallback")
    (root,) = [span for span in spans if span["name"] == "chat gpt-4o"]
    (queue,) = [span for span in spans if span["name"] == "queue"]
    (attempt,) = [span for span in spans if span["name"] == "attempt"]
    failed, answered = [span for span in spans if span["name"] == "fallback"]

    assert {CALLERS_TRACE} == {span["context"]["trace_id"] for span in spans}
    assert "LLM" == root["span_kind"]
    phases = ["authenticate", "receive", "parse", "tokenize", "reserve", "queue", "attempt"]
    assert [*phases, "wait", "fallback", "fallback", "settle"] == names(spans, root)
    assert ("ERROR", "ConnectFailed") == (attempt["status_code"], attempt["status_message"])
    assert ("ERROR", "UpstreamRefused") == (failed["status_code"], failed["status_message"])
    assert ("bedrock", "answered") == tuple(
        answered["attributes"][f"warmgate.{name}"] for name in ("backend.kind", "outcome")
    )
    assert ("prefix_aware", "cold", 1, "w1", 0) == tuple(
        queue["attributes"][f"warmgate.{name}"] for name in ("strategy", "reason", "candidates", "worker", "hit.blocks")
    )
    assert ("blue", "ci", "search", 11, 5) == tuple(
        root["attributes"][name]
        for name in (
            *("warmgate.team", "warmgate.key", "warmgate.project"),
            *("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"),
        )
    )
    assert PROMPT not in str(spans)


async def test_a_continued_stream_is_read_back(phoenix: str, http: httpx.AsyncClient) -> None:
    async with breaking_off(tracing(phoenix, "continued")) as (here, _):
        answer = await here.http.post("/v1/chat/completions", json=a_stream())
        assert "data: [DONE]" == answer.text.strip().splitlines()[-1]
    spans = await read_back(http, phoenix, "continued")
    (root,) = [span for span in spans if span["name"] == "chat gpt-4o"]
    broken, continued = [span for span in spans if span["name"] == "attempt"]

    phases = ["authenticate", "receive", "parse", "tokenize", "reserve", "queue", "attempt"]
    assert [*phases, "queue", "attempt", "settle"] == names(spans, root)
    assert (["relay"], ["relay"]) == (names(spans, broken), names(spans, continued))
    assert ("first", "ReplyBroken") == (broken["attributes"]["warmgate.worker"], broken["status_message"])
    assert ("second", True, "answered") == tuple(
        continued["attributes"][f"warmgate.{name}"] for name in ("worker", "continued", "outcome")
    )
    assert (1, 8) == (root["attributes"]["warmgate.continued"], root["attributes"]["gen_ai.usage.output_tokens"])
    assert PROMPT not in str(spans)


async def test_content_is_shown_where_it_is_reported(phoenix: str, http: httpx.AsyncClient) -> None:
    """In the form in which Phoenix takes it for messages."""
    async with breaking_off(tracing(phoenix, "content", content=True)) as (here, _):
        await here.http.post("/v1/chat/completions", json=a_stream())
    (root,) = [span for span in await read_back(http, phoenix, "content") if span["name"] == "chat gpt-4o"]

    assert PROMPT in root["attributes"]["gen_ai.input.messages"]
    assert "assistant" in root["attributes"]["gen_ai.output.messages"]
