import socket
from pathlib import Path

import pytest

from documentation.quickstart import key_in, record, request_in, shown_answer, shown_introduction

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
INTRODUCTION = [
    "",
    "Warmgate with 3 workers:",
    "    worker-1",
    "",
    "The key:",
    "    wg-1",
    "",
    "Next:",
    "ready: http://a",
]
ANSWER = (
    "HTTP/1.1 200 OK\r\ndate: now\r\nx-warmgate-worker: w\r\nx-warmgate-hit-blocks: 2\r\n\r\n"
    '{"id":"1","usage":{"prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":4},"total_tokens":9},"n":{}}'
)


def test_the_request_is_the_one_in_the_readme() -> None:
    """It is a complete shell command."""
    request = request_in(README)

    assert request.startswith("curl -i http://127.0.0.1:8080/v1/chat/completions \\\n")
    assert request.endswith("]}'")


def test_the_key_is_masked_and_the_rest_of_the_introduction_is_left_out() -> None:
    key = key_in(INTRODUCTION)

    assert "wg-1" == key
    assert [
        "Warmgate with 3 workers:",
        "    worker-1",
        "The key:",
        "    wg-demo-...",
        "…",
        "ready: http://a",
    ] == list(shown_introduction(INTRODUCTION, key))


def test_an_answer_is_shown_with_its_hits_and_its_usage() -> None:
    usage = '"usage":{"prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":4},"total_tokens":9}'

    assert ["HTTP/1.1 200 OK", "…", "x-warmgate-worker: w", "x-warmgate-hit-blocks: 2", "", f"…{usage}…"] == list(
        shown_answer(ANSWER)
    )


@pytest.mark.e2e
def test_the_session_can_be_recorded_again() -> None:
    """The same worker answers twice. Only the second request finds cached blocks. No key is in the session."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    lines = record(README, port).splitlines()
    hits, workers = (
        [line.partition(": ")[2] for line in lines if line.startswith(f"x-warmgate-{name}:")]
        for name in ("hit-blocks", "worker")
    )

    assert [True, False] == [int(hit) == 0 for hit in hits]
    assert 1 == len(set(workers))
    assert [] == [line for line in lines if "wg-demo" in line and "wg-demo-..." not in line]
