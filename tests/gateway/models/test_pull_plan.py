"""Requests that may pull, and the addresses of their sources."""

from typing import Any

import msgspec
import pytest

from cache_index import WorkerId
from gateway.models.pull_plan import PullAddress, PullPlan
from gateway.protocol.body import Body, without_prompt
from tests.routing.examples import A, B, a_request

PLAN = PullPlan({A: PullAddress("10.0.0.5", 5710)})
CHAT = "/v1/chat/completions"
BODY = without_prompt("tiny", max_tokens=None).changed(reads_cache=True, writes_cache=True)


def may_pull(path: str = CHAT, **changes: Any) -> bool:
    asked: Body = BODY.changed(**changes)
    return PLAN.allowed(a_request(), path, asked).pulls


def test_chats_and_completions_may() -> None:
    assert [True, True, False, False] == [
        may_pull(path) for path in (CHAT, "/v1/completions", "/v1/responses", "/v1/embeddings")
    ]


@pytest.mark.parametrize("changes", [{"reads_cache": False}, {"n": 2}, {"engine_fields": ("kv_transfer_params",)}])
def test_some_requests_may_not(changes: dict[str, Any]) -> None:
    """The engine computes the whole prompt, gives several answers, or got the field from the caller."""
    assert not may_pull(**changes)


def test_parameters_name_the_source() -> None:
    source = {"kv_request_id": "x", "remote_host": "10.0.0.5", "remote_port": 5710}
    parameters = PLAN.parameters(A, "x")

    assert parameters is not None
    assert {"remote_kv_source": source} == msgspec.json.decode(parameters)


def test_a_worker_that_left_has_no_address() -> None:
    assert [None, None] == [PLAN.parameters(worker, "x") for worker in (B, WorkerId("c"))]
