"""Requests that the headers decide, and headers that gateways of llm-d add."""

import base64
import json
from pathlib import Path

from tests.picker.rig import requests_of, rig

SESSIONS = [f"session-{number}" for number in range(12)]


async def test_a_session_has_one_worker_without_its_body(tmp_path: Path) -> None:
    """With the mode NONE of request bodies, the headers decide. The worker is that of the strategy session, so requests
    with and without shown bodies meet the same cache.
    """
    model = {"strategy": "session"}
    async with rig(tmp_path, 3, body_mode="NONE", answer_mode="FULL_DUPLEX_STREAMED", model=model) as there:
        through_envoy, through_proxy = {}, {}
        for name in SESSIONS:
            headers = {"x-session-id": name}
            answers = [
                await there.chat(f"{name} a"),
                *[await there.chat(f"{name} b", headers=headers) for _ in range(2)],
            ]
            assert {200} == {answer.status_code for answer in answers}
            through_envoy[name] = set(await there.holders(f"{name} b"))
            body = {"model": "tiny", "max_tokens": 1, "messages": [{"role": "user", "content": f"{name} c"}]}
            answer = await there.picker.http.post("/v1/chat/completions", json=body, headers=headers)
            assert 200 == answer.status_code
            through_proxy[name] = set(await there.holders(f"{name} c"))

    assert through_proxy == through_envoy
    assert {1} == {len(workers) for workers in through_envoy.values()}
    assert 1 < len(set().union(*through_envoy.values()))


async def test_a_gateway_can_choose_the_model(tmp_path: Path) -> None:
    """The worker gets the body with the name of the model that the header names, under its present and former name."""
    async with rig(tmp_path, 1) as there:
        for header in ("x-llm-d-model-name-rewrite", "x-gateway-model-name-rewrite"):
            answer = await there.chat(f"asked with {header}", model="any name", headers={header: "gpt-4o"})
            assert 200 == answer.status_code, answer.text
        unknown = await there.chat(headers={"x-llm-d-model-name-rewrite": "unknown"})
        bodies = [base64.b64decode(each["body"]).decode() for each in await requests_of(there.workers[0])]

    assert ["tiny", "tiny"] == [json.loads(body)["model"] for body in bodies if "asked with" in body]
    assert 404 == unknown.status_code
