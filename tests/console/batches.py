"""Batches of teams, which the pages of the console show."""

import json
from collections.abc import Mapping

import httpx


def new_batch(
    url: str,
    key: str,
    *,
    lines: int = 3,
    max_tokens: int = 2,
    metadata: Mapping[str, str] | None = None,
    file: str = "",
) -> str:
    """Create a batch at the gateway *url* with the API key *key*, and return its id. *file* replaces the input file."""
    body = {"model": "tiny", "max_tokens": max_tokens, "ignore_eos": True}
    requests = [
        {
            "custom_id": str(number),
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {**body, "messages": [{"role": "user", "content": f"Tell me about the star {number}."}]},
        }
        for number in range(lines)
    ]
    content = file or "\n".join(map(json.dumps, requests))
    with httpx.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=60) as http:
        upload = {"file": ("questions.jsonl", content.encode())}
        made = http.post("/v1/files", data={"purpose": "batch"}, files=upload)
        assert made.is_success, made.text
        fields = {
            "input_file_id": made.json()["id"],
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": dict(metadata or {}),
        }
        batch = http.post("/v1/batches", json=fields)
        assert batch.is_success, batch.text
        return str(batch.json()["id"])
