"""Decisions for Envoy: KV events change them, receipts keep them, and explanations foretell them."""

import asyncio
from pathlib import Path
from typing import Any

import httpx

from simulator.event_options import EventOptions
from simulator.tokenizer_folder import write_tokenizer
from tests.picker.rig import PATIENCE_S, PickerProcess, Rig, rig

TOKEN = "the-admins-own-token"
ADMIN = {"keys": [{"role": "viewer", "secret": TOKEN}]}
AS_ADMIN = {"authorization": f"Bearer {TOKEN}", "accept": "application/json"}


def a_body(name: str) -> dict[str, Any]:
    """Return a body whose prompt has several blocks, and shares none with those of other names."""
    text = f"{name} is the subject of this prompt. " * 40
    return {"model": "tiny", "max_tokens": 2, "messages": [{"role": "user", "content": text}]}


async def metric(picker: PickerProcess, name: str) -> dict[str, float]:
    """Return the values of the metric *name* by the labels."""
    lines = (await picker.http.get("/metrics")).text.splitlines()
    found = [line.rsplit(" ", 1) for line in lines if line.startswith(f"{name}{{")]
    return {labels.removeprefix(name): float(value) for labels, value in found}


async def until_events_are_live(there: Rig) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while sum((await metric(there.picker, "warmgate_worker_kv_events_live")).values()) < len(there.workers):
            await asyncio.sleep(0.05)


async def until_heard(there: Rig, worker: str) -> None:
    """Wait until the picker has applied all events that *worker* has published."""
    async with httpx.AsyncClient(verify=False, timeout=PATIENCE_S) as http:
        published = (await http.get(f"http://{worker}/control/kv_events")).json()["next_sequence"] - 1
    async with asyncio.timeout(PATIENCE_S):
        while (await metric(there.picker, "warmgate_kv_stream_sequence")).get(f'{{worker="{worker}"}}', -1) < published:
            await asyncio.sleep(0.05)


async def receipt(there: Rig, name: str) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            response = await there.picker.http.get(f"/admin/v1/requests/{name}", headers=AS_ADMIN)
            if response.status_code != 404:
                assert 200 == response.status_code, response.text
                return response.json()
            await asyncio.sleep(0.05)


async def test_kv_events_change_the_pick(tmp_path: Path) -> None:
    """Each worker gets a prompt directly, which the picker can only know from the KV events. The picker then names this
    worker to Envoy. The explanation foretells it, and the receipt has the hit that the worker reported.
    """
    write_tokenizer(tmp_path / "tokenizer")
    model = {"strategy": "kv_aware", "tokenizer": {"path": str(tmp_path / "tokenizer"), "budget_s": 30}}
    options = {"kv_events": EventOptions(replay_port=0)}
    async with rig(tmp_path, 3, model=model, options=options, admin=ADMIN, conformance=True) as there:
        await until_events_are_live(there)
        for number, worker in enumerate(there.workers):
            body = a_body(f"prompt {number}")
            async with httpx.AsyncClient(verify=False, timeout=PATIENCE_S) as http:
                assert 200 == (await http.post(f"http://{worker}/v1/chat/completions", json=body)).status_code
            await until_heard(there, worker)
            explained = await there.picker.http.post("/admin/v1/explain", json=body, headers=AS_ADMIN)
            name = f"request-{number}"
            answer = await there.http.post("/v1/chat/completions", json=body, headers={"x-request-id": name})
            kept = await receipt(there, name)

            assert 200 == answer.status_code, answer.text
            assert worker == explained.json()["workers"][0]["worker"] == answer.headers["x-warmgate-worker"]
            assert worker == answer.headers["x-conformance-test-served-endpoint"]
            assert ("kv_aware", "hit", worker) == (kept["strategy"], kept["reason"], kept["chosen"])
            chosen, *others = kept["candidates"]
            assert {0.0} == {each["hit_tokens"] for each in others}
            usage = answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
            assert ("reported", usage) == (chosen["hit_source"], chosen["hit_tokens"])
            assert 100 < usage == kept["cached_tokens"]
            assert [{"backend": worker, "outcome": "answered"}] == kept["attempts"]
