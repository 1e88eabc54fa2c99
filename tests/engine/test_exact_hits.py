"""What two engines have cached, with room for few conversations: predicted to the token, because they tell it.

One request at a time in all, so that nothing happens between a prediction and what comes of it.
"""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.processes import Child, Processes, free_port, start_gateway
from tests.engine.conversations import ANSWER_TOKENS, Recording, of_its_own, recordings
from tests.engine.environment import BIN, model_folder
from tests.engine.stack import MODEL, START_TIMEOUT_S, start_engine

CONVERSATIONS = 40
TURNS = 3
CONTEXT_TOKENS = 8192
BLOCKS = 272
"""Of 32 tokens, to the engine: room for few of these conversations, so that older ones are evicted."""
BAR = 0.99
FIRST_TURNS_S = 0.05
TIMEOUT_S = 900.0


@dataclass(frozen=True, slots=True)
class Hit:
    engine: str
    predicted: int
    reported: int
    source: str | None = None


class Site:
    """Two engines that tell of their caches, and a gateway that can be started anew before them."""

    def __init__(self, processes: Processes, model: Path) -> None:
        self._processes = processes
        self._model = model
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
            blocks=BLOCKS,
            context_tokens=CONTEXT_TOKENS,
            events=(events[0], events[1]),
        )

    def wait(self, name: str) -> None:
        self._engines[name].wait_for_port(self._ports[name][0], timeout_s=START_TIMEOUT_S)

    def restart(self, name: str) -> None:
        """Its cache is empty then, and it says so to nobody."""
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
                caller.wait_until_told(len(workers))
                yield caller
        finally:
            child.stop()


class Caller:
    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def metric(self, name: str) -> dict[str, float]:
        text = self._http.get("/metrics").text
        return {labels: float(value) for labels, value in re.findall(rf"^{name}(\S*) (\S+)$", text, re.MULTILINE)}

    def wait_until_told(self, engines: int) -> None:
        """Until what so many engines tell is relied on, and the checks of the start are over."""
        give_up_at = time.monotonic() + 120
        while sum(self.metric("warmgate_worker_cache_told").values()) < engines:
            assert time.monotonic() < give_up_at, "the engines' events were not heard"
            time.sleep(0.2)
        self.wait_until_quiet()

    def wait_until_quiet(self) -> None:
        """Until nothing has been told for a while."""
        before = None
        while before != (now := self.metric("warmgate_kv_stream_sequence")):
            before = now
            time.sleep(FIRST_TURNS_S)

    def hold(self, recording: Recording, *, salt: str | None = None) -> list[Hit]:
        """Ask turn after turn, each with the model's own answers."""
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
            self.wait_until_quiet()
        return hits


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if not (BIN / "vllm").exists():
        pytest.exit("vLLM is not installed here: python -m tests.engine.environment", returncode=2)
    with ExitStack() as exits:
        yield Site(exits.enter_context(Processes()), model_folder())


def held(caller: Caller, conversations: Sequence[Recording], *, salt: str | None = None) -> list[Hit]:
    return [hit for recording in conversations for hit in caller.hold(recording, salt=salt)]


def share_exact(hits: Sequence[Hit]) -> float:
    return sum(hit.predicted == hit.reported for hit in hits) / len(hits)


def wrong(hits: Sequence[Hit]) -> list[Hit]:
    return [hit for hit in hits if hit.predicted != hit.reported]


@pytest.mark.timeout(TIMEOUT_S, func_only=True)
def test_predicted_hits_are_those_that_vllm_reports(site: Site) -> None:
    """Forty conversations, most of them longer than what is left of the cache; an engine and the gateway restart."""
    # With a beginning of their own: else all would go to the one engine that has their common one.
    conversations = [of_its_own(recording) for recording in islice(recordings(turns=TURNS), CONVERSATIONS)]
    with site.gateway() as caller:
        hits = held(caller, conversations[:25])
        evicted = sum(
            count for labels, count in caller.metric("warmgate_kv_blocks_total").items() if "removed" in labels
        )
        site.restart("engine-a")
        caller.wait_until_told(2)
        after_engine = held(caller, conversations[25:33])
    with site.gateway() as caller:
        after_gateway = held(caller, conversations[31:])
        salted = held(caller, conversations[38:], salt="pepper")

    assert evicted > 200
    assert {"engine-a", "engine-b"} == {hit.engine for hit in hits}
    for part in (hits, after_engine, after_gateway, salted):
        assert share_exact(part) >= BAR, wrong(part)
    assert sum(hit.reported > 0 for hit in hits) > len(hits) / 2
    assert after_gateway[0].reported > 0  # the engines are warm, and the new gateway knows it
