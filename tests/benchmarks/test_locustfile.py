"""The load test for everybody's own deployment: what it reads and says, and one run of locust against the demo.

In this process locust must not replace the standard library by gevent's, so that is turned off before it is imported.
"""

import contextlib
import importlib
import io
import itertools
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("geventhttpclient", reason="locust is not installed")

ROOT = Path(__file__).parents[2]
LOCUSTFILE = ROOT / "benchmarks" / "locustfile.py"


@pytest.fixture(scope="module")
def locustfile() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCUST_SKIP_MONKEY_PATCH", "1")
        yield importlib.import_module("benchmarks.locustfile")


class Stream(io.BytesIO):
    """A response of these events, as geventhttpclient hands it out."""

    def __init__(self, *events: dict[str, Any] | str) -> None:
        reported = [event if isinstance(event, str) else json.dumps(event) for event in events]
        super().__init__("".join(f"data: {event}\n\n" for event in reported).encode())

    def readline(self, sep: bytes = b"\n") -> bytes:  # type: ignore[override]
        assert b"\n" == sep
        return super().readline()


def delta(**said: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": said}], "usage": None}


USAGE = {"choices": [], "usage": {"completion_tokens": 11}}


def read(locustfile: ModuleType, *events: dict[str, Any] | str, keeps_text: bool = False) -> Any:
    """What came of a stream whose events arrive a second after each other, from second 10 on."""
    reply = locustfile.Reply(status=200, begun_at=8.0)
    seconds = itertools.count(10.0)
    locustfile.read_stream(Stream(*events), reply, keeps_text=keeps_text, clock=lambda: next(seconds))
    return reply


def test_times_are_those_of_what_is_said(locustfile: ModuleType) -> None:
    """The role alone is no token: it takes second 10. Text comes at 11, 12 and 13, of eleven tokens in all."""
    reply = read(
        locustfile, delta(role="assistant", content=""), delta(content="a"), delta(content="b"), delta(content="c"),
        USAGE, "[DONE]",
    )  # fmt: skip

    assert None is reply.failure
    assert 3_000.0 == reply.ttft_ms
    assert pytest.approx(200.0) == reply.tpot_ms


@pytest.mark.parametrize("said", [{"reasoning_content": "hm"}, {"reasoning": "hm"}, {"tool_calls": [{"index": 0}]}])
def test_reasoning_and_tool_calls_are_tokens_too(locustfile: ModuleType, said: dict[str, Any]) -> None:
    """Under the names that engines have for them."""
    assert 2_000.0 == read(locustfile, delta(**said), "[DONE]").ttft_ms


def test_without_usage_events_are_counted(locustfile: ModuleType) -> None:
    """Three of them: two steps of a second."""
    reply = read(locustfile, delta(content="a"), delta(content="b"), delta(content="c"), "[DONE]")

    assert (3, 1_000.0) == (reply.output_tokens, reply.tpot_ms)


def test_one_token_has_no_time_per_token(locustfile: ModuleType) -> None:
    assert None is read(locustfile, delta(content="a"), "[DONE]").tpot_ms


def test_text_is_kept_for_the_next_turn_only(locustfile: ModuleType) -> None:
    """Else nothing of it is looked at."""
    events = (delta(content="al"), delta(content="pha"), "[DONE]")

    assert "alpha" == "".join(read(locustfile, *events, keeps_text=True).text)
    assert [] == read(locustfile, *events).text


def test_a_stream_without_its_end_has_failed(locustfile: ModuleType) -> None:
    assert "stream ended early" == read(locustfile, delta(content="a"), delta(content="b")).failure


def test_an_error_inside_a_stream_is_named_by_its_code(locustfile: ModuleType) -> None:
    """Its message, which may quote the prompt, is not reported. A text about errors is no error."""
    error = {"error": {"message": "secret prompt", "type": "server_error", "code": "gateway_stopping"}}

    assert "in the stream: gateway_stopping" == read(locustfile, delta(content="a"), error, "[DONE]").failure
    assert None is read(locustfile, delta(content="a"), delta(content='{"error": 1}'), "[DONE]").failure


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"error": {"code": "rate_limit_exceeded", "type": "requests"}}, "rate_limit_exceeded"),
        ({"error": {"code": None, "type": "invalid_request_error"}}, "invalid_request_error"),
        ({"error": "secret"}, "error"),
        (["secret"], "error"),
    ],
)
def test_a_refusal_is_named_by_code_or_type(locustfile: ModuleType, body: object, code: str) -> None:
    assert code == locustfile.code_of(body)


def talk(locustfile: ModuleType, seed: int = 1, **sizes: int) -> list[Any]:
    reported = {"prompt_tokens": 100, "shared_tokens": 60, "contexts": 3, "output_tokens": 7, "turns": 2, **sizes}
    return list(locustfile.Sizes(**reported).talk(locustfile.words)(random.Random(seed)))


def test_made_up_prompts_are_as_long_as_asked_for(locustfile: ModuleType) -> None:
    """Four characters to a token; the shared part comes once, before the first question."""
    first, second = talk(locustfile)

    assert ["system", "user"] == [message["role"] for message in first.messages]
    assert [239, 159] == [len(message["content"]) for message in first.messages]
    assert ["user"] == [message["role"] for message in second.messages]
    assert [True, False] == [first.is_quoted, second.is_quoted]


def test_contexts_are_shared_and_questions_are_not(locustfile: ModuleType) -> None:
    opened = [talk(locustfile, seed)[0].messages for seed in range(60)]

    assert 3 == len({system["content"] for system, _ in opened})
    assert 60 == len({question["content"] for _, question in opened})


def test_prompts_may_be_cut_from_a_text(locustfile: ModuleType) -> None:
    """Passages of it, of the length asked for."""
    text = "".join(map(chr, range(32, 1_000)))
    passage = locustfile.cut_from(text)(5, random.Random(1))

    assert 20 == len(passage)
    assert passage in text
    with pytest.raises(ValueError, match="--text is empty"):
        locustfile.cut_from(" \n")


def turns_of(locustfile: ModuleType, directory: Path, line: dict[str, Any], output_tokens: int | None = None) -> Any:
    path = directory / "trace.jsonl"
    path.write_text(json.dumps(line) + "\n\n")
    return list(locustfile.recorded(path, output_tokens)(random.Random(1)))


def test_a_recorded_conversation_is_asked_turn_by_turn(locustfile: ModuleType, tmp_path: Path) -> None:
    """The answers that were recorded are quoted, so that prompts are those of the record."""
    said = [("system", "be"), ("user", "a"), ("assistant", "A" * 100), ("tool", "t"), ("assistant", "B"), ("user", "c")]
    messages = [{"role": role, "content": content} for role, content in said]
    first, second, third = turns_of(locustfile, tmp_path, {"messages": messages})

    assert [messages[:2], messages[3:4], messages[5:]] == [first.messages, second.messages, third.messages]
    assert [messages[2], messages[4], None] == [first.answer, second.answer, third.answer]
    assert [25, 8, 256] == [first.output_tokens, second.output_tokens, third.output_tokens]


def test_a_trace_of_hashes_repeats_where_they_do(locustfile: ModuleType, tmp_path: Path) -> None:
    """Two prompts of 1,000 tokens that have the first of two blocks in common."""
    one, other = (
        turns_of(locustfile, tmp_path, {"input_length": 1_000, "output_length": 5, "hash_ids": ids})[0]
        for ids in ([7, 8], [7, 9])
    )
    texts = [turn.messages[0]["content"] for turn in (one, other)]

    assert 5 == one.output_tokens
    assert all(3_990 <= len(text) <= 4_000 for text in texts)
    assert texts[0][:2_000] == texts[1][:2_000]
    assert texts[0][2_000:] != texts[1][2_000:]


def test_a_prompt_is_one_request_and_other_lines_are_not(locustfile: ModuleType, tmp_path: Path) -> None:
    (turn,) = turns_of(locustfile, tmp_path, {"prompt": "hello"}, output_tokens=9)

    assert ([{"role": "user", "content": "hello"}], 9) == (turn.messages, turn.output_tokens)
    with pytest.raises(ValueError, match="has no line with"):
        turns_of(locustfile, tmp_path, {"text": "hello"})


def locust(*options: str, key: str = "") -> subprocess.CompletedProcess[str]:
    """Some seconds of locust, as its users start it, away from this repository."""
    command = [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), "--headless", "--only-summary", *options]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command,
        cwd=LOCUSTFILE.parent.parent.parent,
        env={**environment, "OPENAI_API_KEY": key},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@pytest.fixture(scope="module")
def demo() -> Iterator[tuple[str, str]]:
    """The demo's address, and its key."""
    command = [sys.executable, "-m", "gateway", "demo", "--port", "0", "--workers", "1"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("ready: "):
                break
        found = re.search(r"wg-demo-[\w-]+", "".join(lines))
        assert found is not None
        with contextlib.ExitStack() as stack:
            stack.callback(process.terminate)
            yield lines[-1].split()[1], found[0]


@pytest.mark.e2e
def test_a_run_against_the_demo(demo: tuple[str, str], tmp_path: Path) -> None:
    """Two users of team `good` are answered, one of team `bad` is refused; no key is reported."""
    url, key = demo
    (tmp_path / "keys").write_text(f"good {key}\n# a comment\nbad wrong-key\ngood {key}\n")
    done = locust(
        *("--host", url, "-u", "3", "-r", "3", "-t", "4s", "--turns", "2", "--prompt-tokens", "60"),
        *("--output-tokens", "8", "--keys-file", str(tmp_path / "keys"), "--json-file", str(tmp_path / "found")),
        *("--think-s", "0.02", "--shared-tokens", "20", "--prompt-seed", "1", "--csv", str(tmp_path / "found")),
    )
    failures = (tmp_path / "found_failures.csv").read_text()
    entries = {(each["method"], each["name"]): each for each in json.loads((tmp_path / "found.json").read_text())}
    good, bad = "/v1/chat/completions good", "/v1/chat/completions bad"

    assert {("POST", good), ("TTFT", good), ("TPOT", good), ("POST", bad)} == set(entries), done.stderr
    assert 0 == entries["POST", good]["num_failures"] < entries["POST", good]["num_requests"]
    assert entries["POST", good]["num_requests"] >= entries["TTFT", good]["num_requests"] > 0
    assert entries["POST", bad]["num_failures"] == entries["POST", bad]["num_requests"] > 0
    assert "401 invalid_api_key" in failures
    assert all(secret not in done.stdout + done.stderr + failures for secret in (key, "wrong-key"))


@pytest.mark.e2e
def test_what_is_wrong_is_said_before_anybody_asks() -> None:
    """With a status that is no success."""
    done = locust("--host", "http://127.0.0.1:1", "-t", "1s", "--trace", "/does/not/exist")

    assert 0 != done.returncode
    assert "locustfile: [Errno 2] No such file" in done.stdout + done.stderr
