"""What a gateway process writes."""

import json
from pathlib import Path

from tests.e2e.gateway_process import gateway_process


async def test_a_process_speaks_json_where_it_is_told_to(tmp_path: Path) -> None:
    """On stderr what the program says, on stdout requests; both as objects with a time and an event."""
    settings = {
        "server": {"host": "127.0.0.1", "port": 0},
        "models": [{"name": "tiny", "workers": [{"url": "http://127.0.0.1:1"}]}],
        "logging": {"format": "json"},
        "retry": {"wait_s": 0},
    }
    async with gateway_process(tmp_path, settings) as process:
        body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
        assert 503 == (await process.http.post("/v1/chat/completions", json=body)).status_code
    requests, program = (path.read_text().splitlines() for path in process.output)
    said = [json.loads(line) for line in program]

    assert {"log"} == {line["event"] for line in said}
    assert ["gateway.tenancy"] == [line["logger"] for line in said if "neither teams" in line["message"]]
    assert ["request"] == [json.loads(line)["event"] for line in requests if line.startswith("{")]
