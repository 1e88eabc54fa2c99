"""Our tokens beside an engine's, feature by feature."""

import json
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from gateway.models.tokenizing.agreement import agreement, distrusted
from gateway.models.tokenizing.engine_question import EngineAddress, EngineQuestion
from gateway.models.tokenizing.engine_render import EngineRender
from gateway.models.tokenizing.engine_tokenize import EngineTokenize
from gateway.models.tokenizing.exactness import Exact, NotExact
from gateway.models.tokenizing.loading import load_local
from gateway.models.tokenizing.local import LocalTokenizer
from gateway.models.tokenizing.token_source import RawPrompt
from simulator.options import SimulatorOptions
from simulator.server import serving
from simulator.tokenizer_folder import write_tokenizer
from tests.gateway.models.tokenizing.examples import segments, template
from tests.gateway.models.tokenizing.templates import EVERYTHING_AS_JSON

OURS = EVERYTHING_AS_JSON.rstrip("\n")
FEATURES = {"text", "chat", "parts", "developer", "tools", "tool_calls", "reasoning", "effort"}


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=60, verify=False) as client:
        yield client


@dataclass
class Stutters:
    """Is slow for as many questions as it is notified, then answers by another."""

    slow: int
    then: LocalTokenizer

    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        if self.slow:
            self.slow -= 1
            return NotExact("slow")
        return await self.then.ids(prompt)


@dataclass
class Refuses:
    """Cannot tell."""

    asked: list[RawPrompt] = field(default_factory=list)

    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        self.asked.append(prompt)
        return NotExact("unavailable")


def local(pool: ThreadPoolExecutor, source: str) -> LocalTokenizer:
    return LocalTokenizer(segments(), template(source), executor=pool, budget_s=10.0)


async def test_one_agrees_with_itself(pool: ThreadPoolExecutor) -> None:
    """On every feature; also if it is slow at first."""
    made = local(pool, OURS)

    assert dict.fromkeys(FEATURES, "same") == await agreement(Stutters(2, made), made, model="m")


@pytest.mark.parametrize(
    ("theirs", "different"),
    [
        ("{{ ' ' }}" + OURS, FEATURES - {"text"}),
        (OURS + "{% if tools %}x{% endif %}", {"tools", "tool_calls"}),
        (OURS + "{% for m in messages %}{{ 'x' if m.role == 'tool' }}{% endfor %}", {"tool_calls"}),
        (OURS + "{% for m in messages %}{{ 'x' if m.reasoning }}{% endfor %}", {"reasoning"}),
        (OURS + "{{ 'x' if enable_thinking is defined }}", {"effort"}),
        (OURS + "{# 'developer' #}", {"developer"}),
        (
            OURS.replace("messages %}", "messages %}{% for c in message.content %}{% endfor %}"),
            FEATURES - {"text"},
        ),
    ],
)
async def test_a_difference_is_found_by_name(pool: ThreadPoolExecutor, theirs: str, different: set[str]) -> None:
    """Features without a difference are not suspected."""
    verdicts = await agreement(local(pool, OURS), local(pool, theirs), model="m")

    assert different == distrusted(verdicts)
    assert dict.fromkeys(FEATURES - different, "same").items() <= verdicts.items()


async def test_what_one_cannot_tell_is_not_known(pool: ThreadPoolExecutor) -> None:
    """An unknown result is not a difference; an engine is not asked for prompts that are unknown here."""
    refuses = Refuses()
    made = local(pool, OURS)

    assert dict.fromkeys(FEATURES, "unknown") == await agreement(refuses, made, model="m")
    assert dict.fromkeys(FEATURES, "unknown") == await agreement(made, refuses, model="m")
    assert frozenset() == distrusted(await agreement(made, refuses, model="m"))
    assert {"m"} == {json.loads(prompt.body)["model"] for prompt in refuses.asked}


@pytest.mark.e2e
async def test_who_is_always_slow_is_given_up(pool: ThreadPoolExecutor) -> None:
    """After a second for each question."""
    made = local(pool, OURS)
    slow = Stutters(20, made)

    assert "unknown" == (await agreement(slow, made, model="m"))["text"]


async def test_the_simulators_tokenizer_agrees_with_its_worker(
    tmp_path: Path, pool: ThreadPoolExecutor, client: httpx.AsyncClient
) -> None:
    """Both ways of asking it agree; /tokenize cannot be asked about effort."""
    write_tokenizer(tmp_path)
    made = load_local(tmp_path, executor=pool, budget_s=10.0)
    async with serving(SimulatorOptions(port=0, enable_scale_out=True)) as url:
        question = EngineQuestion(client, lambda: [EngineAddress(url)], timeout_s=10.0, clock=time.monotonic)
        rendered = await agreement(made, EngineRender(question), model="tiny")
        tokenized = await agreement(made, EngineTokenize(question), model="tiny")

    assert dict.fromkeys(FEATURES - {"developer"}, "same") == {
        feature: verdict for feature, verdict in rendered.items() if feature != "developer"
    }
    assert "unknown" == tokenized["effort"]
    assert {"same"} == {tokenized[feature] for feature in tokenized if feature not in ("effort", "developer")}
