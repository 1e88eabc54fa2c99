import json
from collections import Counter
from pathlib import Path

import httpx
import msgspec
import pytest
from tokenizers import Tokenizer

from benchmarks.processes import ChildFailedError
from benchmarks.report import Circumstances, Report
from benchmarks.stalls import (
    FLOOD_WORKERS,
    HUGE,
    IDLE,
    Bench,
    Case,
    Talk,
    flood_of,
    settings_of,
    tell,
    write_tokenizer,
)
from benchmarks.stub_worker import serve, write_script
from benchmarks.watched_gateway import PATH, Turns
from gateway.protocol.body import parse_chat
from gateway.settings import build

TEXTS = ["Where is my seat?", "It is 12A, by the window \u2013 as before.", "Thank you."]


def body_of(request: bytes) -> bytes:
    return request.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("size", [200, 5_000])
def test_prompts_have_the_size_that_is_asked_for(size: int) -> None:
    """To within one of the texts; in one message, or in many."""
    talk = Talk(TEXTS, seed=1)
    conversation, document = body_of(talk.conversation(size)), body_of(talk.document(size))

    assert size * 0.9 - 50 < len(conversation) < size * 1.1 + 100
    assert size * 0.9 - 50 < len(document) < size * 1.1 + 100
    assert 1 == len(json.loads(document)["messages"])
    assert len(json.loads(conversation)["messages"]) > size / 100


def test_no_prompt_begins_as_another() -> None:
    """Not even by one block of text."""
    talk = Talk(TEXTS, seed=1)
    prompts = [parse_chat(body_of(make(300))).prompt for _ in range(20) for make in (talk.conversation, talk.document)]

    assert {1} == set(Counter(prompt[:16] for prompt in prompts).values())


def test_the_tokenizer_is_one_that_the_gateway_reads(tmp_path: Path) -> None:
    """With a chat template beside it, and marks that are tokens of their own."""
    write_tokenizer(tmp_path / "model", TEXTS)

    tokenizer = Tokenizer.from_file(str(tmp_path / "model" / "tokenizer.json"))
    config = json.loads((tmp_path / "model" / "tokenizer_config.json").read_text())
    assert ["<|im_start|>", "<|im_end|>"] == tokenizer.encode("<|im_start|><|im_end|>").tokens
    assert "add_generation_prompt" in config["chat_template"]


def test_the_flood_is_as_many_blocks_as_it_says() -> None:
    """From every engine, in batches as vLLM sends them."""
    batches = flood_of(seed=1, blocks=5_000)

    blocks = [len(event["block_hashes"]) for own in batches.values() for batch in own for event in _events(batch)]
    assert set(range(FLOOD_WORKERS)) == set(batches)
    assert 5_000 <= sum(blocks) < 6_000


def _events(batch: bytes) -> list[dict[str, list[int]]]:
    _, events, _ = msgspec.msgpack.decode(batch)
    return list(events)


def test_the_settings_are_those_of_a_gateway(tmp_path: Path) -> None:
    """Each worker has an engine that reports."""
    urls, ports = ["http://127.0.0.1:1", "http://127.0.0.1:2"], [11, 12]
    settings = build(settings_of(tmp_path, urls, ports, port=1234), {})

    (model,) = settings.models
    reported = [worker.kv_events.endpoint for worker in model.workers if worker.kv_events is not None]
    assert ["tcp://127.0.0.1:11", "tcp://127.0.0.1:12"] == reported
    assert ("kv_aware", 1234) == (model.strategy, settings.server.port)


@pytest.fixture
def report() -> Report:
    return Report("stalls", "Stalls", Circumstances.observe(seed=1, packages=()))


def cases(**turns: float) -> list[Case]:
    held = Turns(**turns)  # type: ignore[arg-type]
    return [
        Case(IDLE, Turns(longest_ms=99.0)),
        Case(f"{HUGE}, by text", Turns(longest_ms=9.0, longest_cpu_ms=9.0), 3, 9.0),
        Case("KV events", held, 3, 9.0),
        Case("220 kB, by tokens", Turns(), 5, 1.0),
    ]


def test_neither_what_the_machine_does_by_itself_nor_reading_megabytes_is_judged(report: Report) -> None:
    """All else is."""
    tell(report, cases(longest_ms=1.9, longest_cpu_ms=1.5), exact=5)

    assert report.is_met
    assert "KV events" in report.bars[0].what


def test_long_turns_and_tokens_that_no_one_made_are_reported(report: Report) -> None:
    tell(report, cases(longest_ms=2.6, longest_cpu_ms=2.5), exact=4)

    assert [False, False, False] == [bar.is_met for bar in report.bars]


async def test_a_case_is_what_the_loop_did_meanwhile() -> None:
    """What was before is asked for and forgotten."""
    answers = [Turns(longest_ms=50.0), Turns(longest_ms=1.5, turns=7)]

    def reported(request: httpx.Request) -> httpx.Response:
        assert PATH == request.url.path
        return httpx.Response(200, content=msgspec.json.encode(answers.pop(0)))

    async def deed() -> int:
        return 4

    async with httpx.AsyncClient(transport=httpx.MockTransport(reported)) as client:
        case = await Bench("http://gateway", client).watch("four", deed)

    assert ("four", Turns(longest_ms=1.5, turns=7), 4) == (case.name, case.turns, case.requests)
    assert case.ms_per_request is not None
    assert case.ms_per_request >= 0


async def test_requests_that_are_not_answered_stop_the_run() -> None:
    """A refused prompt holds no loop."""
    script = write_script("tiny")
    talk = Talk(TEXTS, seed=1)
    async with await serve(script) as server, httpx.AsyncClient() as client:
        bench = Bench(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", client)

        assert 2 == await bench.ask([talk.conversation(200), talk.document(200)])
        with pytest.raises(ChildFailedError, match="404"):
            await bench.ask([talk.conversation(200).replace(b"/v1/chat/completions", b"/v1/nowhere")])


async def test_a_metric_is_the_sum_of_its_lines() -> None:
    text = 'warmgate_kv_blocks_total{kind="stored",worker="a"} 3.0\nwarmgate_kv_blocks_total{kind="removed"} 9.0\n'
    text += 'warmgate_kv_blocks_total{worker="b",kind="stored"} 4.0\n'

    async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200, text=text))) as client:
        found = await Bench("http://gateway", client).metric(r'warmgate_kv_blocks_total\{.*kind="stored"')

    assert 7.0 == found
