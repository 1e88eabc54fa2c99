"""Facts about what a gateway process writes."""

import json
import subprocess
import sys
from pathlib import Path

from tests.e2e.gateway_process import gateway_process


async def test_a_process_speaks_json_where_it_is_asked_to(tmp_path: Path) -> None:
    """On stderr what the program says, from its first words on, on stdout addresses and requests; all as objects with
    a time and an event.
    """
    settings = {
        "server": {"host": "127.0.0.1", "port": 0, "implementation": "uvicorn"},
        "admin": {"port": 0, "keys": [{"role": "owner", "secret": "s-1"}]},
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
    assert [("warning", "gateway.app.config_source")] == [
        (line["level"], line["logger"]) for line in said if "server.implementation is deprecated" in line["message"]
    ]
    assert ["gateway.app.tenancy"] == [line["logger"] for line in said if "no teams and no store" in line["message"]]
    assert ["model tiny is down"] == [
        line["message"].partition(": ")[0].partition(" of ")[2]
        for line in said
        if line["logger"] == "gateway.workers.health_checker"
    ]
    assert ["admin", "ready", "request"] == [json.loads(line)["event"] for line in requests]
    assert {"time", "event", "address"} == json.loads(requests[1]).keys()


def test_warnings_and_what_no_one_caught_are_lines_of_json() -> None:
    """In the main thread and in another one."""
    program = """
import threading, warnings
from gateway.server.program_log import log_to_stderr, say
log_to_stderr("info", "json")
warnings.warn("old thing")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start(); thread.join()
say("It cannot start.")
raise ValueError("nobody")
"""
    ran = subprocess.run([sys.executable, "-W", "default", "-c", program], capture_output=True, check=False, text=True)
    lines = [json.loads(line) for line in ran.stderr.splitlines()]

    assert ["warning", "critical", "error", "critical"] == [line["level"] for line in lines]
    assert "old thing" in lines[0]["message"]
    assert ["ZeroDivisionError: division by zero", "ValueError: nobody"] == [
        line["exception"].splitlines()[-1] for line in lines if "exception" in line
    ]
