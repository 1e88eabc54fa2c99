"""The process of its own."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from gateway.telemetry.what_if.job import Change, Job, Message
from tests.gateway.telemetry.what_if.examples import a_job, folder

pytestmark = pytest.mark.e2e


def spoken(job: Job) -> list[Message]:
    """Return the messages of the process."""
    found = subprocess.run(
        [sys.executable, "-m", "gateway.telemetry.what_if.child"],
        input=msgspec.json.encode(job),
        stdout=subprocess.PIPE,
        env={},
        check=True,
        timeout=50,
    )
    return [msgspec.json.decode(line, type=Message) for line in found.stdout.splitlines()]


def test_a_job_gives_progress_and_a_result(tmp_path: Path) -> None:
    *progress, last = spoken(a_job(folder(tmp_path), Change(workers=3)))

    assert progress
    assert all(message.done is not None for message in progress)
    assert last.result is not None
    assert 36 == last.result.requests


def test_an_error_is_a_message(tmp_path: Path) -> None:
    assert [Message(error="no requests were recorded in this time")] == spoken(a_job(tmp_path))


def test_memory_is_limited(tmp_path: Path) -> None:
    """A trace of a million blocks and too little memory for them."""
    line = '{"timestamp": 0, "input_length": 640000, "output_length": 1, "hash_ids": [' + "7," * 9999 + "7]}"
    job = a_job(None, Change(), trace="\n".join([line] * 200))
    limited = dataclasses.replace(job, max_memory_bytes=64 * 2**20)
    (message,) = spoken(limited)

    assert "The replay needs too much memory. Replay a shorter time." == message.error
